package demo

import (
	"context"
	"os/exec"
	"slices"

	"tenaq/internal/cli"
	"tenaq/internal/demo/outbox"
)

var outboxScenario = scenario{
	name: "outbox",
	text: "jobs and messages in one transaction, and a week of jobs that is done again",
	run:  runOutbox,
	breaks: []breakage{
		{name: string(outbox.Leases), text: "relays take rows without keeping other relays from them"},
		{name: string(outbox.Generations), text: "what is replayed keeps its generation"},
	},
	child: workOutbox,
}

// runOutbox makes the queues and has the story told.
func runOutbox(ctx context.Context, env *demoEnv) ([]demoRow, error) {
	s, err := env.openSQS(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	cfg := outbox.Config{
		API: s.api, Scale: outbox.Full, Database: env.database,
		Dir: env.dir, Seed: env.seed, Break: outbox.Breakage(env.broken), Keep: env.keep,
		Process: func() (*exec.Cmd, error) { return s.childCommand("outbox") },
		Say:     env.progress.Say, Line: env.progress.Line,
	}
	if s.server == nil || cfg.Break != outbox.Nothing {
		cfg.Scale = outbox.Small
	}
	for _, q := range []struct {
		name string
		url  *string
		fifo bool
	}{
		{"transcode-usual", &cfg.Queues.Usual, false},
		{"transcode", &cfg.Queues.Plain, false},
		{"transcode.fifo", &cfg.Queues.Ordered, true},
	} {
		if *q.url, err = s.createQueue(ctx, q.name, outbox.Attributes(q.fifo)); err != nil {
			return nil, err
		}
	}
	out, err := outbox.Run(ctx, cfg)
	return append(outboxRows(out, cfg.Break, s.server != nil), s.alarmRow(ctx)), err
}

// workOutbox is an upload service, a relay, a worker or a replay.
func workOutbox(ctx context.Context, a *cli.App, args []string) error {
	api, err := childClient(ctx, args)
	if err != nil {
		return err
	}
	return outbox.Work(ctx, a.Stdin, api)
}

// outboxRows shows what became of the jobs, on a server of our own or another one.
func outboxRows(o *outbox.Outcome, broken outbox.Breakage, ours bool) []demoRow {
	return slices.Concat(usualOutboxRows(o, broken), stormRows(o, ours), replayRows(o), jobRows(o))
}

// usualOutboxRows shows what uploads do that are written as usual. If they did no harm the rest would prove nothing.
func usualOutboxRows(o *outbox.Outcome, broken outbox.Breakage) []demoRow {
	const unsent, unrecorded = "as usual, row first: jobs that nobody will ever do", "as usual, message first: jobs done without a record"
	if broken != outbox.Nothing {
		return []demoRow{skippedRow(unsent, "left out too"), skippedRow(unrecorded, "left out too")}
	}
	return []demoRow{atLeastRow(unsent, 1, o.Usual.Unsent), atLeastRow(unrecorded, 1, o.Usual.Unrecorded)}
}

// stormRows shows what became of uploads while everybody was killed.
func stormRows(o *outbox.Outcome, ours bool) []demoRow {
	onOurs := func(check string, want, got int) demoRow {
		if ours {
			return wantRow(check, want, got)
		}
		// moto forgets a deduplication id when its message is deleted, and of two messages of a group whose visibility
		// timeouts have ended it gives out the second one first.
		return shownRow(check, got)
	}
	return []demoRow{
		atLeastRow("upload services killed between their statements", outbox.UploadDeaths, o.UploadDeaths),
		atLeastRow("relays killed before a claim", o.Scale.RelayDeaths, at(o.RelayDeaths, 0)),
		atLeastRow("relays killed after a claim, before they sent", o.Scale.RelayDeaths, at(o.RelayDeaths, 1)),
		atLeastRow("relays killed after a send, before they noted it", o.Scale.RelayDeaths, at(o.RelayDeaths, 2)),
		atLeastRow("relays killed after they noted it", o.Scale.RelayDeaths, at(o.RelayDeaths, 3)),
		atLeastRow("workers killed with a job", outbox.WorkerDeaths, o.WorkerDeaths),
		atLeastRow("uploads committed after younger ones were sent", outbox.Lates, o.Late),
		wantRow("jobs without a row in the outbox, and rows without a job", 0, o.Halves),
		shownRow("uploads rolled back", o.RolledBack),
		wantRow("of these, such as have a job, a row, a message or a file", 0, o.Ghosts),
		atLeastRow("messages sent again because a relay had died", 1, o.Copies),
		wantRow("messages sent again for no such reason", 0, o.Unexcused),
		onOurs("messages sent again that the FIFO queue took", 0, o.FIFOCopies),
		onOurs("versions of films transcoded before an earlier one", 0, o.Disorder),
		wantRow("files that are wrong after all that", 0, o.StormyWrong),
	}
}

// replayRows shows what became of the jobs that a wrong transcoder had done.
func replayRows(o *outbox.Outcome) []demoRow {
	window := o.Scale.Window + o.Scale.Versions
	return []demoRow{
		wantRow("jobs done while the transcoder is wrong", window, o.Window),
		wantRow("files that are wrong, though the jobs are done", window, o.WindowWrong),
		atLeastRow("as usual, the same jobs again: messages", o.Scale.Window, o.UsualSent),
		wantRow("as usual: files that are right now", 0, o.UsualMended),
		wantRow("messages that the plan of the replay counts", window, o.Planned),
		atLeastRow("processes killed that replayed", outbox.ReplayDeaths, o.ReplayDeaths),
		wantRow("rows that they wrote with a new generation", window, o.Replayed),
		wantRow("jobs transcoded once more, and not twice", window, o.Redone),
		// A lease of seconds runs out on a machine that stands still for so long, and somebody else begins. That is what the row
		// before is about.
		atLeastRow("times that a worker began with one of them", window, o.Begun),
		wantRow("versions of the film transcoded before an earlier one", 0, o.Disordered),
		wantRow("files of those days that are wrong now", 0, o.StillWrong),
		wantRow("files of other days that were written again", 0, o.Touched),
		shownRow("rows looked at for what was never done", o.GapLookedAt),
		wantRow("of these sent again", outbox.GapSize, o.GapRows),
		wantRow("and received by the workers", outbox.GapSize, o.GapReceived),
		wantRow("jobs done whose messages had been lost", outbox.GapSize, o.GapDone),
	}
}

// jobRows shows how things are in the end.
func jobRows(o *outbox.Outcome) []demoRow {
	return []demoRow{
		shownRow("uploads in all, without those that were rolled back", o.Uploaded),
		wantRow("jobs", o.Uploaded, o.Recorded),
		wantRow("jobs that the ledger knows to be done", o.Uploaded, o.Completed),
		wantRow("jobs that are not done", 0, o.Undone),
		wantRow("rows that are not sent", 0, o.Pending),
		wantRow("files that are missing or wrong", 0, o.Wrong),
		wantRow("messages left in the queues", 0, o.Left),
		wantRow("processes that did not end when told to", 0, o.Unclean),
	}
}

// at is one of several numbers, if they were counted.
func at(numbers []int, i int) int {
	if i >= len(numbers) {
		return 0
	}
	return numbers[i]
}
