package doctor

import (
	"maps"
	"slices"
	"strings"

	"tenaq/internal/work/extension"
)

// checkExtensions says what tags of a queue switch on, and which of them contradict each other or
// the attributes of the queue.
func checkExtensions(q *Examined) Finding {
	if q.untold != nil {
		return unchecked("allow sqs:ListQueueTags on it", "%v", q.untold)
	}
	on := q.extensions()
	var says []string
	for _, tag := range slices.Sorted(maps.Keys(q.tags)) {
		if text := extension.Explain(tag, q.tags[tag]); text != "" {
			says = append(says, text)
		}
	}
	if len(says) == 0 {
		return Finding{}
	}
	retention, _ := q.seconds("MessageRetentionPeriod")
	no := on.Contradictions(extension.Queue{Name: q.Name, Dead: q.IsDead,
		Retention: retention.Milliseconds(), Redrives: q.Attributes["RedrivePolicy"] != "",
		ByContent: q.isFIFO() && q.Attributes["ContentBasedDeduplication"] == "true"})
	if len(no) > 0 {
		var facts, dos []string
		for _, c := range no {
			facts, dos = append(facts, c.Says), append(dos, c.Do)
		}
		return warning(strings.Join(dos, "; "), "%s", strings.Join(facts, "; "))
	}
	return fine("%s", strings.Join(says, "; "))
}

// extensions is what the tags of a queue switch on.
func (q *Examined) extensions() (on extension.Set) {
	for tag, value := range q.tags { // order does not matter: each switches on a thing of its own
		on.Add(tag, value)
	}
	return on
}
