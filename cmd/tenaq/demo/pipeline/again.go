package pipeline

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/internal/work/timeline"
)

type event = timeline.Event

// A second is what came of the replay of one group. All of it is nil or zero on another server,
// which keeps no history.
type second struct {
	From           int            // index of the first report
	Again, Missing []stage.Report // while the group, and then what is missing, was replayed
	Stored         int            // identical files of the group under their second effect key
	Trace          []event
}

// without leaves out the reports of the replay, which have rows of their own.
func (s *second) without(reports []stage.Report) []stage.Report {
	return slices.Concat(reports[:s.From], reports[s.From+len(s.Again)+len(s.Missing):])
}

// secondKey is the effect key of a file that is downloaded as generation 1.
func secondKey(id string) string { return claims.EffectKey(id, 1) }

// keepHistory lets the queue keep what has ended in it. Only tenaq does so.
func (p *play) keepHistory() {
	if p.Server == nil {
		return
	}
	_, err := p.API.TagQueue(p.Ctx, &sqs.TagQueueInput{QueueUrl: &p.url,
		Tags: map[string]string{"tenaq:history": "1h"}})
	p.Must(err)
}

// again lets an operator replay the files of one group, as if their results were wrong, while
// workers run. Then it asks for what is missing, which is nothing, and for the life of one file.
func (p *play) again() {
	if p.Server == nil {
		return
	}
	o, queue := p.out, p.url[strings.LastIndexByte(p.url, '/')+1:]
	// replay runs the command, and returns what processes reported until its work was done.
	replay := func(args ...string) []stage.Report {
		before := len(p.Reports())
		p.Tenaq(append([]string{"replay", queue, "--yes"}, args...)...)
		p.Until("what was replayed", func() bool { return p.Left(p.url) == 0 })
		return p.Reports()[before:]
	}
	o.From = len(p.Reports())
	p.Hire("worker", task{QueueURL: p.url, Lease: lease})
	p.Say("an operator replays the group %s", orderedGroup)
	o.Again = replay("--group", orderedGroup)
	o.Missing = replay("--missing")
	p.Dismiss("worker")
	o.Missing = append(o.Missing, p.Reports()[o.From+len(o.Again)+len(o.Missing):]...)

	for _, f := range o.Files {
		got, err := os.ReadFile(filepath.Join(outDir(p.Dir), secondKey(f.ID)))
		o.Stored += stage.One(err == nil && string(got) == p.source.texts[f.ID])
	}
	var trace struct{ Events []event }
	asked := []string{"trace", fileTraced, "--records", "sqlite:" + stage.RecordsFile(p.Dir)}
	p.Must(json.Unmarshal(p.Tenaq(append(asked, "--json")...), &trace))
	o.Trace = trace.Events
	if p.Verbose {
		p.Say("what the operator sees of %s:\n%s", fileTraced, p.Tenaq(asked...))
	}
}

// seconds are the rows about the replay and the trace.
func (o *outcome) seconds() []stage.Row {
	group := stage.Count(o.Files, func(f file) bool { return f.Group == orderedGroup })
	once, others := 0, 0
	for _, f := range o.Files {
		tasks := stage.Count(o.Again, func(r stage.Report) bool {
			return r.Point == pointDownload && r.Key == f.ID
		})
		once += stage.One(f.Group == orderedGroup && tasks == 1)
		others += stage.One(f.Group != orderedGroup && tasks > 0)
	}
	return stage.Unless(!o.Ours, stage.NotOurs,
		stage.Want("one group replayed: its files downloaded once more", group, once),
		stage.Want("  stored under the effect key of generation 1", group, o.Stored),
		stage.Want("  other files downloaded", 0, others),
		stage.Want("then what is missing replayed: delivered", 0,
			len(stage.At(o.Missing, stage.Received))),
		o.traced("trace of one file", 0, "registered", timeline.Sent, timeline.Received,
			timeline.Returned, timeline.Received, "deleted"),
		stage.True("  why its first task failed", slices.ContainsFunc(o.Trace, func(e event) bool {
			return e.What == timeline.Returned && strings.Contains(e.Text, "killed")
		})),
		stage.AtMost("  receives whose times are not known", attempts, o.untimed()),
		o.traced("  its generation 1", 1, timeline.Replayed, timeline.Received, "deleted"),
		o.ledgered(stage.Want("  completed under", fileTraced+" "+secondKey(fileTraced),
			strings.Join(o.completed(), " "))),
	)
}

// traced is the row about what the trace says of a generation. More may have happened on a busy
// machine, such as a receive by a worker that put the message back. A registration has the time of
// its producer's clock, and counts as first whatever that says beside the server's.
func (o *outcome) traced(check string, generation uint64, want ...string) stage.Row {
	var got []string
	rest := want
	events := slices.Clone(o.Trace)
	slices.SortStableFunc(events, func(a, b event) int {
		return stage.One(a.What != "registered") - stage.One(b.What != "registered")
	})
	for _, e := range events {
		if e.Generation != generation || slices.Contains([]string{"claimed", "completed"}, e.What) {
			continue
		}
		got = append(got, e.What)
		if len(rest) > 0 && e.What == rest[0] {
			rest = rest[1:]
		}
	}
	if len(rest) == 0 {
		got = want
	}
	return stage.Want(check, strings.Join(want, ", "), strings.Join(got, ", "))
}

// untimed is how many receives the trace counts without a time: on a busy machine, those whose
// leases ended.
func (o *outcome) untimed() (n int) {
	for _, e := range o.Trace {
		n += int(e.Count)
	}
	return n
}

// completed are the effect keys that the trace shows as completed.
func (o *outcome) completed() (keys []string) {
	for _, e := range o.Trace {
		if e.What == string(claims.Completed) {
			keys = append(keys, claims.EffectKey(e.Key, int(e.Generation)))
		}
	}
	return keys
}
