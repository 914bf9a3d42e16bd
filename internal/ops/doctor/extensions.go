package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"tenaq/internal/cli"
	"tenaq/internal/work/extension"
)

// checkExtensions says what tags of a queue switch on, or which of them contradict each other or
// the attributes of the queue, and which are nearly the tag of an extension.
func checkExtensions(q *Examined) (found []Finding) {
	if q.untold != nil {
		return []Finding{unchecked("allow sqs:ListQueueTags on it", "%v", q.untold)}
	}
	on := q.extensions()
	var says []string
	for _, tag := range slices.Sorted(maps.Keys(q.tags)) {
		if text := extension.ExplainOn(tag, q.tags[tag], q.isFIFO()); text != "" {
			says = append(says, text)
		} else if meant := extension.Meant(tag, cli.Nearest); meant != "" && meant != tag {
			found = append(found, warning(fmt.Sprintf("if it is meant: tenaq queue tag %s %s=VALUE; tenaq queue untag %[1]s %[3]q",
				q.Name, meant, tag),
				"the tag %q has no effect: the extension is %s", tag, meant))
		}
	}
	retention, _ := q.seconds("MessageRetentionPeriod")
	for _, c := range on.Contradictions(extension.Queue{Name: q.Name, FIFO: q.isFIFO(),
		Tags: q.tags, Dead: q.IsDead, Retention: retention.Milliseconds(),
		Redrives: q.Attributes["RedrivePolicy"] != "",
		Itself:   q.target != "" && q.target == q.arn(), Receives: q.maxReceives,
		ByContent: q.isFIFO() && q.Attributes["ContentBasedDeduplication"] == "true"}) {
		found = append(found, warning(c.Do, "%s", c.Says))
	}
	if len(found) == 0 && len(says) > 0 {
		return []Finding{fine("%s", strings.Join(says, "; "))}
	}
	return found
}

// checkHeld counts the message groups that wait for dead letters.
func checkHeld(q *Examined) Finding {
	if q.held == 0 {
		return Finding{}
	}
	says := cli.Counted(q.held, "message group waits", "message groups wait")
	if q.held == cli.HeldGroupsMax {
		says = fmt.Sprintf("%d message groups or more wait", q.held)
	}
	return warning(fmt.Sprintf("look at them: tenaq group list %s --locked; bring the dead letters back: tenaq dead redrive %s",
		q.Name, cmp.Or(cli.QueueNameOf(q.target), "QUEUE")),
		"%s for dead letters to be back or gone", says).
		with(map[string]float64{"heldGroups": float64(q.held)})
}

// extensions is what the tags of a queue switch on.
func (q *Examined) extensions() (on extension.Set) {
	for tag, value := range q.tags { // order does not matter: each switches on a thing of its own
		on.Add(tag, value)
	}
	return on
}
