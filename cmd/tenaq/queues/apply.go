package queues

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/server"
	"tenaq/internal/settings"
)

type applyFlags struct {
	cli.ClientFlags
	dryRun, fix bool
}

func NewApplyCmd(a *cli.App) *cobra.Command {
	f := &applyFlags{}
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Create the queues that a file declares, and report differences",
		Long: `Create the queues that a file declares, and report how existing ones differ.

The file is a configuration of "tenaq serve"; only queues: is used. The command
works on any SQS endpoint. It creates missing queues, dead-letter queues first.
It compares existing queues attribute by attribute and tag by tag and leaves
alone what the file does not mention. JSON is compared by meaning, and true
equals True.

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
			c, err := f.Connect(cmd.Context())
			if err != nil {
				return err
			}
			ap := &applier{App: a, c: c, dryRun: f.dryRun, fix: f.fix}
			if err := ap.run(cmd.Context(), file.Queues); err != nil {
				if ap.done > 0 {
					// what was done is worth knowing; err says the rest
					_ = ap.report(len(file.Queues))
				}
				return err
			}
			return ap.finish(len(file.Queues))
		},
	}
	f.Register(cmd)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "report, and change nothing")
	cmd.Flags().BoolVar(&f.fix, "fix", false, "set attributes and tags that differ")
	return cmd
}

// An applier brings queues into line with their declaration.
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
		state, err := state(ap.c, ctx, q.Name)
		switch {
		case err == nil:
			states[q.Name] = state
			present = append(present, q)
		case cli.ExitCode(err) == cli.ExitNotFound:
			missing = append(missing, q)
		default:
			return err
		}
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

// create carries out a step of the creation.
func (ap *applier) create(ctx context.Context, s server.CreationStep) error {
	if s.Redrive != "" {
		if ap.dryRun {
			return nil // the creating step reported it
		}
		return ap.attempt(change{Queue: s.Queue.Name, Attribute: "RedrivePolicy", Want: s.Redrive,
			Action: actionSet},
			ap.setAttributes(ctx, s.Queue.Name, map[string]string{"RedrivePolicy": s.Redrive}))
	}
	ch := change{Queue: s.Queue.Name, Action: actionCreated}
	if ap.dryRun {
		ap.pending(ch, "would create")
		return nil
	}
	in := &sqs.CreateQueueInput{QueueName: &s.Queue.Name, Attributes: s.Queue.Attributes,
		Tags: s.Queue.Tags}
	_, err := cli.Call(ctx, ap.c, ap.c.CreateQueue, in)
	if err != nil {
		err = ap.c.Explain("create queue", s.Queue.Name, suggestAttribute(in.Attributes, err))
	}
	return ap.attempt(ch, err)
}

// compare finds the differences of a queue and, with --fix, sets them right.
func (ap *applier) compare(ctx context.Context, q settings.DeclaredQueue, state queueState) error {
	attributes, tags := differences(q, state)
	switch {
	case !ap.fix:
		for _, ch := range append(attributes, tags...) {
			ap.pending(ch, "differs")
		}
		return nil
	case ap.dryRun:
		for _, ch := range append(attributes, tags...) {
			ap.pending(ch, "would set")
		}
		return nil
	}
	if len(attributes) > 0 {
		if err := ap.attemptAll(attributes,
			ap.setAttributes(ctx, q.Name, wanted(attributes))); err != nil {
			return err
		}
	}
	if len(tags) > 0 {
		_, err := cli.Call(ctx, ap.c, ap.c.TagQueue,
			&sqs.TagQueueInput{QueueUrl: &state.URL, Tags: wanted(tags)})
		if err != nil {
			err = ap.c.Explain("tag queue", q.Name, err)
		}
		return ap.attemptAll(tags, err)
	}
	return nil
}

func (ap *applier) setAttributes(
	ctx context.Context, queue string, attributes map[string]string,
) error {
	url, err := ap.c.QueueURL(ctx, queue)
	if err != nil {
		return err
	}
	if _, err := cli.Call(ctx, ap.c, ap.c.SetQueueAttributes,
		&sqs.SetQueueAttributesInput{QueueUrl: &url, Attributes: attributes}); err != nil {
		return ap.c.Explain("change queue", queue, suggestAttribute(attributes, err))
	}
	return nil
}

// pending records a difference that remains.
func (ap *applier) pending(ch change, action string) {
	ch.Action = action
	ap.open++
	ap.changes = append(ap.changes, ch)
}

// attempt records the outcome of a change. A refusal is recorded only; any other error ends the
// run, because the next request would meet it too.
func (ap *applier) attempt(ch change, err error) error {
	return ap.attemptAll([]change{ch}, err)
}

func (ap *applier) attemptAll(changes []change, err error) error {
	if err != nil && cli.ExitCode(err) == cli.ExitFailed {
		if ap.done > 0 {
			return cli.Codedf(cli.ExitPartly, "stopped after %s: %w",
				cli.Counted(ap.done, "change", "changes"), err)
		}
		return err
	}
	for _, ch := range changes {
		ch.Action = actionSetOr(ch.Action)
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

// finish prints the changes and says how it went.
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
		changes := ap.changes
		if changes == nil {
			changes = []change{}
		}
		return ap.PrintJSON(map[string]any{"queues": queues, "changes": changes,
			"drift": ap.open+ap.failed > 0})
	}
	if len(ap.changes) == 0 {
		_, err := fmt.Fprintf(ap.Stdout, "%s as declared\n",
			cli.Counted(queues, "queue is", "queues are"))
		return err
	}
	t := cli.Table{Head: []string{"QUEUE", "ATTRIBUTE", "WANT", "HAVE", "ACTION"}}
	for _, ch := range ap.changes {
		t.Add(ch.Queue, cli.OrDash(ch.what()), cli.OrDash(ch.Want), cli.OrDash(ch.Have), ch.Action)
	}
	return ap.PrintTable(t)
}
