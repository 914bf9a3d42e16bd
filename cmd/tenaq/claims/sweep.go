package claims

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/spf13/cobra"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/producer"
)

type sweepFlags struct {
	*cli.ClaimsFlags
	client       cli.ClientFlags
	stuck, watch string
	queues       []string
	settle       []string
	run          bool
}

func newClaimsSweepCmd(a *cli.App, c *cli.ClaimsFlags) *cobra.Command {
	f := &sweepFlags{ClaimsFlags: c}
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Find work that is stuck, and send its messages again",
		Long: `Find work that nobody is at any more, say what can be done about it, and with --run do it. Stuck is:

  held, lease over   its holder is gone, and no other delivery of the message has taken over
  failed, released   no other delivery has taken it up
  not sent           a producer registered the message and died, or got no answer, before it was sent
  not begun          the message was sent, and the ledger has never heard of the work

and has been so for --stuck. Then the message is not in the queue any more, or nobody receives it, or it
waits for longer than that: for its next attempt, behind others, or with the dead letters. Look there first.

What can be done is to send the message again, if package producer has registered it: then it is kept under
send/QUEUE/, unless its producer was given another prefix. It is sent as another message under the same key,
at most once per --stuck. If the first is there after all, the claim on the key keeps the work from being
done twice; a FIFO queue drops what was sent within the last five minutes. Messages that are not registered
are not known here, and are yours to send. Parked work waits for a person, and exhausted work is with the
dead letters: both are left alone.

A queue moves a message to its dead-letter queue by itself after more receives than its maxReceiveCount. No
worker sees that, so the claim stays released, failed or held for ever, and counts of completed and failed
work never add up. --settle QUEUE looks through that dead-letter queue. With --run it records the claims of
the messages that were moved there as exhausted, as a worker does with its own dead letters. A claim that
changes meanwhile is left alone. A message that is brought back is done again.

A tenaq server shows the letters without a receive. Elsewhere they are received: each look counts one
receive, hides the letters for up to a minute, and ends after 1,000 letters; of a FIFO queue it sees the first
ten of each group. "tenaq pipe" does this by itself when maxReceiveCount leaves no room above --attempts.

An entry that is missing may have expired. So when workers or producers are told to keep entries for another
time than 15 days, --retention has to be the same, or work that was done long ago looks as if it had not
begun.

Without --run nothing is changed. With it the exit code is 5 when some could not be sent or settled, 1 when
none could.

DynamoDB has no clock, so one look cannot tell how long an entry has been there. With --watch the entries
are looked at twice, that far apart. Stuck is then what has not changed, and of held work only what has a
lease shorter than that. Registrations have ages there too, by the clocks of the producers.`,
		Example: `  tenaq claims sweep
  tenaq claims sweep --stuck 1h --queue orders --run
  tenaq claims sweep --settle orders-dlq --run
  tenaq claims sweep --records dynamodb:tenaq-records --watch 15m --json | jq -r '.stuck[].key'`,
		Args: cli.Wants(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := f.sweeper(cmd.Context(), a)
			if err != nil {
				return err
			}
			defer s.work.Close()
			return s.sweep(cmd.Context())
		},
	}
	f.client.Register(cmd)
	f.RegisterRetention(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.stuck, "stuck", "15m", "for how long nobody has to have been at the work, as a `duration`: longer than the longest pause between two attempts")
	flags.StringVar(&f.watch, "watch", "", "look twice, this `duration` apart, where the store has no clock")
	flags.StringSliceVar(&f.queues, "queue", nil, "look at what is registered for this `queue` only; may be repeated (default: all queues)")
	flags.StringSliceVar(&f.settle, "settle", nil, "settle claims whose messages their queue moved to this dead-letter `queue`; may be repeated")
	flags.BoolVar(&f.run, "run", false, "send again what can be sent, and settle what can be settled")
	return cmd
}

// A sweeper finds stuck work and sends its messages again.
type sweeper struct {
	*cli.App
	finder
	flags *sweepFlags
}

// sweeper reads the flags, and opens the ledger of the work and what producers have registered.
func (f *sweepFlags) sweeper(ctx context.Context, a *cli.App) (*sweeper, error) {
	s := &sweeper{App: a, flags: f, finder: finder{producers: make(map[string]*producer.Producer)}}
	var err error
	if s.stuck, err = cli.ParseDuration(f.stuck); err != nil {
		return nil, cli.Usagef("--stuck: %v", err)
	}
	if f.watch != "" {
		if s.watch, err = cli.ParseDuration(f.watch); err != nil {
			return nil, cli.Usagef("--watch: %v", err)
		}
	}
	if s.work, err = f.Open(ctx); err != nil {
		return nil, err
	}
	if err = s.openQueues(ctx); err != nil {
		_ = s.work.Close()
		return nil, err
	}
	return s, nil
}

// openQueues makes a producer for every queue that is wanted. They are for looking and know no client.
func (s *sweeper) openQueues(ctx context.Context) error {
	registered, err := registeredQueues(ctx, s.work.Store)
	if err != nil {
		return err
	}
	var wanted []string
	for _, queue := range s.flags.queues {
		name := cli.QueueNameOf(queue)
		if !slices.Contains(registered, name) {
			return cli.Codedf(cli.ExitNotFound, "nothing is registered for the queue %s in %s%s", name, s.work.Store.Place, cli.DidYouMean(name, registered))
		}
		wanted = append(wanted, name)
	}
	s.some = len(wanted) > 0
	if !s.some {
		wanted = registered
	}
	slices.Sort(wanted)
	s.queues = slices.Compact(wanted)
	for _, name := range s.queues {
		if s.producers[name], err = s.producer(unconnected{}, name, name); err != nil {
			return err
		}
	}
	return nil
}

// unconnected is the client of a producer that only looks up what is registered.
type unconnected struct{}

func (unconnected) SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	return nil, errors.New("this producer sends nothing")
}

// producer makes a producer that sends to url what is registered for the queue of that name.
func (s *sweeper) producer(client producer.SQS, name, url string) (*producer.Producer, error) {
	return producer.New(producer.Config{
		Client: client, Store: s.work.Store,
		QueueURL: url, Prefix: cli.RegistrationsPrefix + name + "/", Owner: cli.Operator(),
		Retention: s.work.Retention(), Work: s.work.Ledger,
	})
}

// sweep looks, acts if it is to, and reports.
func (s *sweeper) sweep(ctx context.Context) error {
	var err error
	if s.letters, err = movedLetters(&s.flags.client, ctx, s.flags.settle); err != nil {
		return err
	}
	found, err := s.find(ctx)
	if err != nil {
		return err
	}
	if s.flags.run {
		s.settleAll(ctx, found)
		senders, err := s.senders(ctx, found)
		if err != nil {
			return err
		}
		s.resendAll(ctx, senders, found)
	}
	if err := s.report(found); err != nil {
		return err
	}
	return s.verdict(found)
}

// report prints what was found and what has become of it.
func (s *sweeper) report(found []*stuckWork) error {
	if s.JSON {
		if found == nil {
			found = []*stuckWork{}
		}
		return s.PrintJSON(map[string]any{"stuck": found, "parked": s.parked, "unreadable": s.unreadable})
	}
	if len(found) == 0 {
		s.Note("nothing is stuck in %s", s.work.Store.Place)
		return nil
	}
	t := cli.Table{Head: []string{"KEY", "STATE", "AGE", "ATTEMPTS", "OWNER", "MESSAGE", "ACTION", "WHY"}}
	for _, w := range found {
		state := w.State
		if state == string(claims.Held) {
			state += ", lease over"
		}
		t.Add(w.Key, state, cli.AgeText(w.age), strconv.Itoa(w.Attempts), cli.OrDash(w.Owner), cli.OrDash(w.Message), w.actionText(), w.Why)
	}
	return s.PrintTable(t)
}

// actionText says what is to be done, or was.
func (w *stuckWork) actionText() string {
	switch {
	case w.Action == actionSettle && w.Error != "":
		return "not settled"
	case w.Settled:
		return "settled as exhausted"
	case w.Action == actionSettle:
		return "settle as exhausted"
	case w.Error != "":
		return "not sent to " + w.Queue
	case w.Sent != "":
		return "sent to " + w.Queue + " as " + w.Sent
	case w.Action == actionResend:
		return "send again to " + w.Queue
	}
	return "-"
}

// verdict says what remains to be done, and how the sweep went.
func (s *sweeper) verdict(found []*stuckWork) error {
	all, failed := make(map[string]int), make(map[string]int) // by action
	for _, w := range found {
		all[w.Action]++
		if w.Error != "" {
			failed[w.Action]++
			s.Note("%s: %s", cli.OneLine(w.Key), cli.OneLine(w.Error))
		}
	}
	if s.parked > 0 {
		s.Note("%d parked, for a person to decide; see: tenaq claims list --state parked", s.parked)
	}
	if s.unreadable > 0 {
		s.Note("%d cannot be read; see: tenaq claims list --state unreadable", s.unreadable)
	}
	toDo, bad := all[actionResend]+all[actionSettle], failed[actionResend]+failed[actionSettle]
	if toDo > 0 && !s.flags.run {
		if n := all[actionResend]; n > 0 {
			s.Note("%d of %d can be sent again; do so with --run", n, len(found))
		}
		if n := all[actionSettle]; n > 0 {
			s.Note("%d of %d can be settled; do so with --run", n, len(found))
		}
		return nil
	}
	switch {
	case bad == 0:
		return nil
	case all[actionSettle] == 0 && bad == toDo:
		return cli.Codedf(cli.ExitFailed, "none of %d was sent; see above", toDo)
	case all[actionSettle] == 0:
		return cli.Codedf(cli.ExitPartly, "%d sent, %d not sent; see above", toDo-bad, bad)
	case bad == toDo:
		return cli.Codedf(cli.ExitFailed, "none of %d was sent or settled; see above", toDo)
	}
	return cli.Codedf(cli.ExitPartly, "%d sent or settled, %d not; see above", toDo-bad, bad)
}
