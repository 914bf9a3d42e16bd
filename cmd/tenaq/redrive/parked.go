package redrive

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/redrivehost"
	"tenaq/redrive"
)

func newParkedCmd(a *cli.App, r *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "parked",
		Short: "Show parked messages, and release or discard them",
		Long: `Show the messages that redrivers put into a parking lot, and send them back to
work or delete them.

A parked message says why it was parked, why it failed last, and where it came
from. Messages whose failures differ only in numbers and names are of one kind:
release them together once you have fixed the cause. MESSAGE is the id of a
message, or the beginning of one.

SQS cannot show a message without delivering it. Messages that the command looks
at are hidden until it ends, for at most two minutes. A tenaq server then takes
back the receives; on another server the receive counts grow by one. A parking
lot should have no consumer, and no redrive policy, which could move the
messages away.`,
		Example: `  tenaq redrive parked list orders-parking
  tenaq redrive parked show orders-parking 1b4d8a2e-8f0e-4f43-9d8e-0d3f0c4f2d11
  tenaq redrive parked release orders-parking --kind 2p7d1xk --run`,
	}
	f := &parkedFlags{flags: r}
	cli.Number(cmd.PersistentFlags(), &f.limit, "limit", 1000, 1, 0,
		"receive at most this `number`")
	cmd.AddCommand(newParkedListCmd(a, f), newParkedShowCmd(a, f), newReleaseCmd(a, f),
		newDiscardCmd(a, f))
	cli.AsGroup(cmd)
	return cmd
}

type parkedFlags struct {
	*flags
	limit int
}

// A look is a parking lot with the messages that were received from it.
type look struct {
	*cli.Client
	lot    *redrive.ParkingLot
	name   string
	all    []*redrive.Parked
	unseen int // others that the queue counts
	store  *cli.RecordStore
}

// withLook receives the messages of the parking lot that is the first argument, the oldest first,
// and picks those that the command line means.
func (f *parkedFlags) withLook(
	a *cli.App, p *cli.Pick, do func(context.Context, *look, []*redrive.Parked) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := p.Choose(args[1:]); err != nil {
			return err
		}
		return f.OnQueue(func(ctx context.Context, c *cli.Client, url string, _ []string) error {
			l, err := f.look(ctx, a, c, url)
			if err != nil {
				return err
			}
			defer l.close()
			found, err := l.pick(p)
			if err != nil {
				return err
			}
			return do(ctx, l, found)
		})(cmd, args)
	}
}

func (f *parkedFlags) look(
	ctx context.Context, a *cli.App, c *cli.Client, url string,
) (_ *look, err error) {
	l := &look{Client: c, name: cli.QueueNameOf(url)}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	count, attributes, err := redrivehost.Depth(ctx, c, url)
	if err != nil {
		return nil, err
	}
	if attributes["RedrivePolicy"] != "" {
		a.Note("warning: %s has a redrive policy, which can move messages away when a command looks at them; remove it with: tenaq queue set %[1]s --attribute RedrivePolicy=", l.name)
	}
	cfg := redrive.ParkingLotConfig{Client: c, URL: url}
	if l.store, err = f.openOptional(ctx); err != nil { // few parked messages need them
		return nil, err
	}
	if l.store != nil {
		cfg.Store = l.store
	}
	if l.lot, err = redrive.NewParkingLot(cfg); err != nil {
		return nil, err
	}
	if l.all, err = l.lot.List(ctx, f.limit); err != nil {
		return nil, redrivehost.ExplainStep(c, l.name, err)
	}
	l.unseen = max(0, count-len(l.all))
	slices.SortStableFunc(l.all, func(a, b *redrive.Parked) int { return a.Since.Compare(b.Since) })
	return l, nil
}

// close gives back what is still in the parking lot, also after an interrupt.
func (l *look) close() {
	if len(l.all) > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), l.Timeout)
		defer cancel()
		_ = l.lot.GiveBack(ctx, l.all) // after an error the messages come back by themselves
	}
	if l.store != nil {
		_ = l.store.Close()
	}
}

func (l *look) noteUnseen(a *cli.App) {
	if l.unseen > 0 {
		a.Note("%s counts about %s: hidden, behind others of a group, or beyond --limit", l.name, cli.Counted(l.unseen, "more message", "more messages"))
	}
}

func words(p cli.Pick) cli.Pick {
	p.One, p.Many, p.By = "message", "messages", "kind"
	return p
}

func (l *look) pick(p *cli.Pick) (found []*redrive.Parked, err error) {
	p.List = "tenaq redrive parked list " + l.name
	for _, one := range l.all {
		if p.Wants(one.ID, string(one.Kind)) {
			found = append(found, one)
		}
	}
	hint := ""
	if l.unseen > 0 {
		hint = fmt.Sprintf(" among the %s received; the queue counts %d more: try again later, or with a larger --limit", cli.Counted(len(l.all), "message", "messages"), l.unseen)
	}
	return found, p.Check(l.name, len(found), hint)
}

func newParkedListCmd(a *cli.App, f *parkedFlags) *cobra.Command {
	var kind string
	cmd := &cobra.Command{
		Use:     "list QUEUE",
		Aliases: []string{"ls"},
		Short:   "List the messages of a parking lot",
		Long:    `List the messages of a parking lot, the oldest first, with why they failed last.`,
		Example: `  tenaq redrive parked list orders-parking
  tenaq redrive parked list orders-parking --kind 2p7d1xk
  tenaq redrive parked list orders-parking --json | jq -r '.messages[].kind' | sort | uniq -c`,
		Args: cli.Wants(1, 1),
		RunE: f.withLook(a, cli.PickAll(),
			func(_ context.Context, l *look, found []*redrive.Parked) error {
				defer l.noteUnseen(a)
				found = slices.DeleteFunc(found, func(p *redrive.Parked) bool {
					return kind != "" && string(p.Kind) != kind
				})
				return printParked(a, documents(found), "no parked messages"+
					cli.OrEmpty(kind != "", " of the kind "+kind)+" in "+l.name)
			}),
	}
	cli.Text(cmd.Flags(), &kind, "kind", "list only messages of this `kind`")
	return cmd
}

type document struct {
	Message   string              `json:"messageId"`
	Kind      redrive.Fingerprint `json:"kind"`
	Why       string              `json:"why"` // it was parked
	Reason    string              `json:"reason"`
	Key       string              `json:"key,omitempty"`
	Lineage   string              `json:"lineage,omitempty"`
	Group     string              `json:"group,omitempty"`
	Source    string              `json:"source,omitempty"`
	Attempts  int                 `json:"attempts"`
	Redrives  int                 `json:"redrives"`
	Strikes   int                 `json:"strikes"`
	FirstSent *time.Time          `json:"firstSent"`
	Since     *time.Time          `json:"parkedSince"`
	// only where a single message is shown, like the attributes
	Body       *string                         `json:"body,omitempty"`
	Attributes map[string]cli.MessageAttribute `json:"messageAttributes,omitempty"`
}

func documents(all []*redrive.Parked) (documents []document) {
	for _, p := range all {
		documents = append(documents, document{
			Message: p.ID, Kind: p.Kind, Why: p.Why, Reason: p.Reason, Key: p.Key,
			Lineage: p.Lineage, Group: p.Group, Source: p.Source,
			Attempts: p.Attempts, Redrives: p.Redrives, Strikes: p.Strikes,
			FirstSent: cli.TimeOrNull(p.FirstSent), Since: cli.TimeOrNull(p.Since),
		})
	}
	return documents
}

func printParked(a *cli.App, all []document, none string) error {
	now := time.Now()
	return cli.PrintList(a, "messages", all, none,
		[]string{"MESSAGE", "KIND", "KEY", "FROM", "ATTEMPTS", "REDRIVES", "STRIKES", "PARKED",
			"REASON"}, func(p *document) []string {
			return []string{p.Message, string(p.Kind), cli.OrDash(p.Key),
				cli.OrDash(cli.QueueNameOf(p.Source)), strconv.Itoa(p.Attempts),
				strconv.Itoa(p.Redrives), strconv.Itoa(p.Strikes), cli.AgoText(p.Since, now),
				cli.OrDash(cli.FirstWords(p.Reason, 120))}
		})
}

func newParkedShowCmd(a *cli.App, f *parkedFlags) *cobra.Command {
	shown := words(cli.Pick{})
	return &cobra.Command{
		Use:   "show QUEUE MESSAGE",
		Short: "Show a parked message",
		Long: `Show a parked message: why it was parked, why it failed, its work, its
attributes and its body. If there is no such message the exit code is 3.`,
		Example: `  tenaq redrive parked show orders-parking 1b4d8a2e
  tenaq redrive parked show orders-parking 1b4d8a2e --json | jq -r .body`,
		Args: cli.Wants(2, 2),
		RunE: f.withLook(a, &shown,
			func(_ context.Context, _ *look, found []*redrive.Parked) error {
				p, d, now := found[0], documents(found)[0], time.Now()
				var attributes [][2]string
				d.Body = &p.Body
				d.Attributes, attributes = cli.MessageAttributes(p.Attributes)
				fields := [][2]string{
					{"message", p.ID}, {"parked", cli.TimeText(d.Since, now)}, {"because", p.Why},
					{"reason", p.Reason}, {"kind", string(p.Kind)}, {"from", p.Source},
					{"key", p.Key}, {"lineage", p.Lineage}, {"group", p.Group},
					{"first sent", cli.TimeText(d.FirstSent, now)},
					{"attempts", strconv.Itoa(p.Attempts)}, {"redrives", strconv.Itoa(p.Redrives)},
					{"strikes", strconv.Itoa(p.Strikes)},
				}
				return a.PrintCard(d, p.Body, append(fields, attributes...)...)
			}),
	}
}

func newReleaseCmd(a *cli.App, f *parkedFlags) *cobra.Command {
	c, to := &act{Pick: words(cli.Pick{Verb: "release"}), done: "released"}, ""
	cmd := &cobra.Command{
		Use:   "release QUEUE [MESSAGE | --kind KIND | --all]",
		Short: "Send parked messages back to work",
		Long: `Send parked messages back to the queue they came from, or to another one, and
take them out of the parking lot.

A released message starts over, with all attempts and no strikes. It is the same
work as before: it keeps its key and its generation, so completed work is not
done again. If the command ends between the send and the delete, the message is
in both queues, and can be released again.

A single message is released at once. Several are only listed without --run.
The exit code is 5 if some could not be released, and 1 if none could.`,
		Example: `  tenaq redrive parked release orders-parking 1b4d8a2e
  tenaq redrive parked release orders-parking --kind 2p7d1xk           # lists several
  tenaq redrive parked release orders-parking --kind 2p7d1xk --run
  tenaq redrive parked release orders-parking --all --to orders-by-hand --run`,
		Args: cli.Wants(1, 2),
		RunE: f.withLook(a, &c.Pick,
			func(ctx context.Context, l *look, found []*redrive.Parked) (err error) {
				url := ""
				if to != "" {
					if url, err = l.QueueURL(ctx, to); err != nil {
						return err
					}
				}
				return c.run(ctx, a, l, found, func(one *redrive.Parked) (string, error) {
					if url == "" && one.Source == "" {
						return "", cli.Usagef("%s does not say which queue it came from; name one with --to", one.ID)
					}
					return " to " + cli.QueueNameOf(cmp.Or(url, one.Source)),
						l.lot.Release(ctx, one, url)
				})
			}),
	}
	c.Register(cmd.Flags(), "release")
	cli.Text(cmd.Flags(), &to, "to", "send to this `queue` (default: where each came from)")
	return cmd
}

func newDiscardCmd(a *cli.App, f *parkedFlags) *cobra.Command {
	c := &act{Pick: words(cli.Pick{Verb: "discard", Always: true}), done: "discarded"}
	cmd := &cobra.Command{
		Use:   "discard QUEUE [MESSAGE | --kind KIND | --all] --run",
		Short: "Delete parked messages",
		Long: `Delete parked messages. Their work is not done, and no trace of them remains.

The messages are only listed unless you add --run. The exit code is 5 if some
could not be deleted, and 1 if none could.`,
		Example: `  tenaq redrive parked discard orders-parking 1b4d8a2e --run
  tenaq redrive parked discard orders-parking --kind 2p7d1xk           # lists them
  tenaq redrive parked discard orders-parking --kind 2p7d1xk --run`,
		Args: cli.Wants(1, 2),
		RunE: f.withLook(a, &c.Pick,
			func(ctx context.Context, l *look, found []*redrive.Parked) error {
				return c.run(ctx, a, l, found, func(one *redrive.Parked) (string, error) {
					return "", l.lot.Discard(ctx, one)
				})
			}),
	}
	c.Register(cmd.Flags(), "delete")
	return cmd
}

type act struct {
	cli.Pick
	done string
}

type actDocument struct {
	document
	Action string `json:"action"` // to be done, or done; "" after an error
	Error  string `json:"error,omitempty"`
}

// run does something with one message after the other, or lists them. do returns where a message
// went.
func (c *act) run(
	ctx context.Context, a *cli.App, l *look, found []*redrive.Parked,
	do func(*redrive.Parked) (where string, err error),
) error {
	if len(found) == 0 {
		return a.Result(map[string]any{"messages": []any{}}, "no messages are parked in %s", l.name)
	}
	preview := c.Previews(len(found))
	var outcomes []actDocument
	for _, d := range documents(found) {
		outcomes = append(outcomes, actDocument{document: d, Action: c.Verb})
	}
	tried, failed := 0, 0
	var last, err error
	for i, one := range found {
		if preview || ctx.Err() != nil {
			break
		}
		tried++
		outcomes[i].Action = c.done
		where, err := do(one)
		if err != nil {
			last = redrivehost.ExplainStep(l.Client, l.name, err)
			failed++
			outcomes[i].Action, outcomes[i].Error = "", last.Error()
			if len(found) > 1 {
				a.Complain(last)
			}
		} else if !a.JSON {
			_ = a.PrintText(fmt.Sprintf("%s %s%s\n", c.done, one.ID, where))
		}
	}
	switch {
	case a.JSON && preview:
		err = a.PrintJSON(map[string]any{"messages": outcomes, "run": false})
	case a.JSON:
		err = a.PrintJSON(map[string]any{"messages": outcomes[:tried], "run": true})
	case preview:
		err = printParked(a, documents(found), "")
	}
	if err != nil {
		return err
	}
	if preview {
		c.NotePreview(a, len(found))
	}
	l.noteUnseen(a)
	switch {
	case ctx.Err() != nil:
		return cli.Codedf(cli.ExitPartly, "interrupted after %d of %d", tried-failed, len(found))
	case failed > 0 && len(found) == 1:
		return last
	}
	return cli.Partly(len(found)-failed, failed, c.done)
}
