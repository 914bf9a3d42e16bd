package queues

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/server"
	"tenaq/internal/settings"
)

func NewApplyCmd(a *cli.App) *cobra.Command {
	f, ap := &cli.ClientFlags{}, &applier{App: a}
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Create the queues that a file declares, and report differences",
		Long: `Create the queues that a file declares, and report how existing queues differ.

The file is a configuration of "tenaq serve", or an elasticmq.conf; only its
queues are used. The command works on any SQS endpoint. It creates missing
queues, dead-letter queues first. It compares existing queues attribute by
attribute and tag by tag and leaves alone what the file does not mention. JSON
is compared by meaning, and true equals True.

The exit code is 4 if queues differ; --fix changes them instead. --dry-run
changes nothing, and exits with 4 if anything would change. The command never
deletes a queue.`,
		Example: `  tenaq apply queues.yaml --dry-run
  tenaq apply queues.yaml
  tenaq apply queues.yaml --fix --aws --region eu-west-1`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := settings.ReadConfigFile(args[0])
			switch {
			case err != nil:
				return err
			case len(file.Queues) == 0:
				return cli.Usagef("%s declares no queues; it needs a list queues:", file.Path)
			}
			return f.Run(func(ctx context.Context, c *cli.Client, _ []string) error {
				ap.c = c
				if err := ap.run(ctx, file.Queues); err != nil {
					if ap.done > 0 {
						_ = ap.report(len(file.Queues)) // err is more important
					}
					return err
				}
				return ap.finish(len(file.Queues))
			})(cmd, args)
		},
	}
	f.Register(cmd)
	cmd.Flags().BoolVar(&ap.dryRun, "dry-run", false, "report, and change nothing")
	cmd.Flags().BoolVar(&ap.fix, "fix", false, "set attributes and tags that differ")
	return cmd
}

type applier struct {
	*cli.App
	c           *cli.Client
	dryRun, fix bool

	changes []change
	done    int   // changes made
	open    int   // differences that remain
	failed  int   // changes that the server refused
	last    error // why the last of them was
}

// run goes through the queues. It continues after a refusal of the server, but not after a failed
// connection.
func (ap *applier) run(ctx context.Context, queues []settings.DeclaredQueue) error {
	var missing, present []settings.DeclaredQueue
	states := map[string]queueState{}
	for _, q := range queues {
		url, err := ap.c.QueueURL(ctx, q.Name)
		if cli.ExitCode(err) == cli.ExitNotFound {
			missing = append(missing, q)
			continue
		}
		if err == nil {
			states[q.Name], err = readState(ctx, ap.c, url)
		}
		if err != nil {
			return err
		}
		present = append(present, q)
	}
	for _, step := range server.CreationOrder(settings.PlainQueues(missing)) {
		if err := ap.create(ctx, step); err != nil {
			return err
		}
	}
	for _, q := range present {
		if err := ap.compare(ctx, q, states[q.Name]); err != nil {
			return err
		}
	}
	return nil
}

func (ap *applier) create(ctx context.Context, s server.CreationStep) error {
	if s.Redrive != "" {
		if ap.dryRun {
			return nil // the creating step reported it
		}
		url, err := ap.c.QueueURL(ctx, s.Queue.Name)
		if err == nil {
			err = setAttributes(ctx, ap.c, url, map[string]string{"RedrivePolicy": s.Redrive})
		}
		return ap.attempt(err, change{Queue: s.Queue.Name, Attribute: "RedrivePolicy",
			Want: s.Redrive, Action: actionSet})
	}
	ch := change{Queue: s.Queue.Name, Action: actionCreated}
	if ap.dryRun {
		ap.pending("would create", ch)
		return nil
	}
	_, err := createQueue(ctx, ap.c, &sqs.CreateQueueInput{QueueName: &s.Queue.Name,
		Attributes: s.Queue.Attributes, Tags: s.Queue.Tags})
	return ap.attempt(err, ch)
}

// compare finds the differences of a queue and, with --fix, removes them.
func (ap *applier) compare(ctx context.Context, q settings.DeclaredQueue, state queueState) error {
	attributes, tags := differences(q, state)
	switch {
	case !ap.fix:
		ap.pending("differs", append(attributes, tags...)...)
		return nil
	case ap.dryRun:
		ap.pending("would set", append(attributes, tags...)...)
		return nil
	}
	if len(attributes) > 0 {
		err := setAttributes(ctx, ap.c, state.URL, wanted(attributes))
		if err := ap.attempt(err, attributes...); err != nil {
			return err
		}
	}
	if len(tags) > 0 {
		return ap.attempt(setTags(ctx, ap.c, state.URL, wanted(tags)), tags...)
	}
	return nil
}

func (ap *applier) pending(action string, changes ...change) {
	for _, ch := range changes {
		ch.Action = action
		ap.open++
		ap.changes = append(ap.changes, ch)
	}
}

// attempt records the outcome of changes that were made together. It records a refusal. Any other
// error ends the run, because the next request would meet it, too.
func (ap *applier) attempt(err error, changes ...change) error {
	if err != nil && cli.ExitCode(err) == cli.ExitFailed {
		if ap.done > 0 {
			return cli.Codedf(cli.ExitPartly, "stopped after %s: %w",
				cli.Counted(ap.done, "change", "changes"), err)
		}
		return err
	}
	for _, ch := range changes {
		ch.Action = cmp.Or(ch.Action, actionSet)
		if err != nil {
			ch.Action = actionRefused
			ap.failed++
		} else {
			ap.done++
		}
		ap.changes = append(ap.changes, ch)
	}
	if err != nil {
		ap.Complain(err)
		ap.last = err
	}
	return nil
}

func (ap *applier) finish(queues int) error {
	if err := ap.report(queues); err != nil {
		return err
	}
	switch {
	case ap.failed > 0 && ap.done > 0:
		return cli.Codedf(cli.ExitPartly, "%s and %d refused",
			cli.Counted(ap.done, "change was made", "changes were made"), ap.failed)
	case ap.failed > 0:
		return cli.Codedf(cli.ExitCode(ap.last), "%s refused",
			cli.Counted(ap.failed, "change was", "changes were"))
	case ap.open > 0 && ap.dryRun:
		return cli.Codedf(cli.ExitRefused, "%s; nothing was done",
			cli.Counted(ap.open, "difference", "differences"))
	case ap.open > 0:
		return cli.Codedf(cli.ExitRefused, "%s with --fix",
			cli.Counted(ap.open, "difference remains; set it", "differences remain; set them"))
	}
	return nil
}

func (ap *applier) report(queues int) error {
	if ap.JSON {
		return ap.PrintJSON(map[string]any{"queues": queues,
			"changes": append([]change{}, ap.changes...), "drift": ap.open+ap.failed > 0})
	}
	if len(ap.changes) == 0 {
		return ap.Result(nil, "%s as declared", cli.Counted(queues, "queue is", "queues are"))
	}
	t := cli.Table{Head: []string{"QUEUE", "ATTRIBUTE", "WANT", "HAVE", "ACTION"}}
	for _, ch := range ap.changes {
		t.Add(ch.Queue, cli.OrDash(ch.what()), cli.OrDash(ch.Want), cli.OrDash(ch.Have), ch.Action)
	}
	return ap.PrintTable(t)
}

// The outcomes of a change, as the report names them.
const (
	actionCreated = "created"
	actionSet     = "set"
	actionRefused = "refused"
)

// A change is one line of the report: a whole queue, or one attribute or tag of it.
type change struct {
	Queue     string `json:"queue"`
	Attribute string `json:"attribute,omitempty"`
	Tag       string `json:"tag,omitempty"`
	Want      string `json:"want,omitempty"`
	Have      string `json:"have,omitempty"`
	Action    string `json:"action"`
}

func (ch change) what() string {
	if ch.Tag != "" {
		return "tag " + ch.Tag
	}
	return ch.Attribute
}

// differences compares a queue with its declaration. What is not declared is not compared.
func differences(q settings.DeclaredQueue, state queueState) (attributes, tags []change) {
	for _, name := range attributeOrder(q.Attributes) {
		want, have := q.Attributes[name], state.Attributes[name]
		if !cli.SameAttribute(name, want, have) {
			attributes = append(attributes,
				change{Queue: q.Name, Attribute: name, Want: want, Have: have})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(q.Tags)) {
		have, ok := state.Tags[key]
		if want := q.Tags[key]; !ok || want != have {
			tags = append(tags, change{Queue: q.Name, Tag: key, Want: want, Have: have})
		}
	}
	return attributes, tags
}

func wanted(changes []change) map[string]string {
	m := map[string]string{}
	for _, ch := range changes {
		m[cmp.Or(ch.Tag, ch.Attribute)] = ch.Want
	}
	return m
}
