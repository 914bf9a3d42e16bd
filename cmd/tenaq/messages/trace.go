package messages

import (
	"context"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"

	"tenaq/internal/api/v1"
	"tenaq/internal/cli"
	"tenaq/internal/work/timeline"
	"tenaq/internal/work/v1client"
)

type traceFlags struct {
	cli.ClientFlags
	claims cli.ClaimsFlags
	outbox string
}

func NewTraceCmd(a *cli.App) *cobra.Command {
	f := &traceFlags{}
	cmd := &cobra.Command{
		Use:   "trace KEY|ID",
		Short: "Show the life of one piece of work, from registration to end",
		Long: `Show the life of one piece of work on one screen: its current state and its
events, the newest last. Name it by its key, or by the message id or lineage id
of one of its messages. Nothing is received, hidden or moved.

The screen has registrations, sends, receives, what consumers said when they
gave a message back, dead-lettering, moves, replays, deletion and expiry, and
claims. Times are UTC; ~ marks those by the clock of a client. The end of the
screen lists what cannot be known. The server knows messages that have ended
only if their queues have the tag tenaq:history. The key of a message is that of
its attribute tenaq, as package producer and "tenaq send --once" write it.

With --outbox or TENAQ_OUTBOX, the screen also has the rows of that outbox: when
each was written, sent or set aside, and those that replays wrote. Its address
is as in "tenaq outbox --help". The whole table may have to be read.

Without a tenaq server, only claims, registrations and rows can be shown. If
nothing is known, the exit code is 3.

` + cli.RecordsHelp,
		Example: `  tenaq trace order-17
  tenaq trace 5f0c1a52-8f1e-4c6b-9d0a-3b1f2c7d9e10
  tenaq trace order-17 --json | jq -r '.events[] | [.at, .what, .queue] | @tsv'
  tenaq trace order-17 --outbox sqlite:app.db
  tenaq trace order-17 --aws --records postgres://app@db.example.com/app`,
		Args: cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			found, err := f.trace(cmd.Context(), args[0])
			switch {
			case err != nil:
				return err
			case a.JSON:
				return a.PrintJSON(found)
			}
			return found.print(a)
		},
	}
	f.ClientFlags.Register(cmd)
	f.claims.Register(cmd)
	f.claims.Connect = f.Connect
	cli.Text(cmd.Flags(), &f.outbox, "outbox",
		"`address` of an outbox (default $TENAQ_OUTBOX)")
	return cmd
}

// A traced is the life of a piece of work, as --json prints it.
type traced struct {
	Now      time.Time `json:"now"`
	Keys     []string  `json:"keys"`
	Lineages []string  `json:"lineages"`

	Messages      []cli.FoundMessage      `json:"messages"`
	Claims        []timeline.Claim        `json:"claims"`
	Registrations []timeline.Registration `json:"registrations"`
	Rows          []outboxRow             `json:"rows,omitempty"`
	Events        []timeline.Event        `json:"events"`

	Histories int          `json:"histories"`         // how many were searched
	Records   string       `json:"records,omitempty"` // that were read beside those of the server
	Outbox    string       `json:"outbox,omitempty"`  // that was read
	Unknown   []notKnown   `json:"unknown"`
	Complete  bool         `json:"complete"`
	Next      string       `json:"next,omitempty"` // of an answer of the server
	asked     string       // what was asked for
	server    cli.Endpoint // empty if it is not tenaq
}

// A notKnown says what cannot be shown, and why.
type notKnown v1.Unknown

// tracePages is how many answers of a server are put together, each with a hundred histories.
const tracePages = 100

// trace asks the server, and the records if they are elsewhere.
func (f *traceFlags) trace(ctx context.Context, asked string) (*traced, error) {
	t := &traced{Keys: []string{}, Lineages: []string{}, Messages: []cli.FoundMessage{},
		Claims: []timeline.Claim{}, Registrations: []timeline.Registration{},
		Unknown: []notKnown{}, Complete: true, asked: asked}
	v, err := f.server(ctx)
	if err != nil {
		return nil, err
	}
	nothing := error(nil) // what the server says if it knows nothing
	if v != nil {
		if nothing, err = t.ask(ctx, v, asked); err != nil {
			return nil, err
		}
	}
	if t.server == (cli.Endpoint{}) {
		t.Unknown = append(t.Unknown, notKnown{Part: "messages", Why: "unsupported",
			Text: "this is not a tenaq server of this version, so messages and what became of them are not known"})
	}
	store, err := f.store(ctx, v != nil && t.server != (cli.Endpoint{}))
	if err != nil {
		return nil, err
	}
	if store != nil {
		defer store.Close()
		told := t.Events // by the server
		ids, err := t.read(ctx, store, f.claims.Ledger)
		if err != nil {
			return nil, err
		}
		if err := t.askAbout(ctx, v, ids, told); err != nil {
			return nil, err
		}
	}
	if err := t.readOutbox(ctx, v, f.outbox); err != nil {
		return nil, err
	}
	t.Events = timeline.Merge(t.Events)
	if len(t.Events)+len(t.Messages)+len(t.Claims)+len(t.Registrations) > 0 {
		return t, nil
	}
	if nothing != nil && store == nil && t.Outbox == "" {
		return nil, nothing
	}
	where := "the server"
	if store != nil {
		where = store.Place.String()
	}
	if t.Outbox != "" {
		where += ", no row in " + t.Outbox
	}
	return nil, cli.Codedf(cli.ExitNotFound,
		"nothing is known of %q: no claim and no registration of it is in %s%s", asked, where,
		cli.OrEmpty(nothing != nil, ", and the server knows no message of it"))
}

// askAbout asks the server for messages that are not in its answer yet. It may know them although
// it does not know the key.
func (t *traced) askAbout(
	ctx context.Context, v *cli.V1Client, ids []string, told []timeline.Event,
) error {
	for _, id := range ids {
		if t.server != (cli.Endpoint{}) && !slices.Contains(t.Lineages, id) &&
			!slices.ContainsFunc(told, func(e timeline.Event) bool { return e.Message == id }) {
			if _, err := t.ask(ctx, v, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// server connects to the server; nil for Amazon, which cannot be asked.
func (f *traceFlags) server(ctx context.Context) (*cli.V1Client, error) {
	e, err := f.Resolve()
	if err != nil || e.IsAmazon() {
		return nil, err
	}
	return f.ConnectV1(ctx, "")
}

// store opens the records, unless they are those that the server has shown.
func (f *traceFlags) store(ctx context.Context, shown bool) (*cli.RecordStore, error) {
	place, err := f.claims.Place(ctx)
	switch {
	case err != nil && shown && f.claims.IsUsual():
		return nil, nil // the file of records does not exist
	case err != nil:
		return nil, err
	case cli.IsServerPlace(place) && shown:
		place.Close()
		return nil, nil
	}
	place.Close()
	return f.claims.OpenExisting(ctx)
}

// uuid matches what may be the id of a message. A key may look like that, too: the server looks for
// both.
var uuid = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// ask adds what the server knows. It returns the error of a server that knows nothing.
func (t *traced) ask(
	ctx context.Context, v *cli.V1Client, asked string,
) (nothing, err error) {
	query := url.Values{"key": {asked}}
	if uuid.MatchString(asked) {
		query = url.Values{"id": {asked}}
	}
	for range tracePages {
		var page traced
		bounded, cancel := v.C.Bound(ctx, 0)
		err := v.API().Get(bounded, "/trace", query, &page)
		cancel()
		refused, _ := errors.AsType[smithy.APIError](err)
		switch {
		case err == v1client.ErrOther, refused != nil && refused.ErrorCode() == "NotFound":
			return nil, nil // another server, or an older version
		case refused != nil && refused.ErrorCode() == "NothingKnown":
			t.server = v.C.Endpoint
			return v.Explain(ctx, "trace "+asked, "", err), nil
		case err != nil:
			return nil, v.Explain(ctx, "trace "+asked, "", err)
		}
		t.server = v.C.Endpoint
		t.add(&page)
		if page.Next == "" {
			return nil, nil
		}
		query.Set("after", page.Next)
	}
	t.Complete = false
	t.Unknown = append(t.Unknown, notKnown{"history", "", "bound",
		"there are more histories than are searched"})
	return nil, nil
}

// add adds an answer of the server.
func (t *traced) add(page *traced) {
	t.Now, t.Histories = page.Now, t.Histories+page.Histories
	t.Complete = t.Complete && (page.Complete || page.Next != "" && !page.lacks())
	t.Keys, t.Lineages = addNew(t.Keys, page.Keys), addNew(t.Lineages, page.Lineages)
	t.Unknown = addNew(t.Unknown, page.Unknown)
	t.Events = append(t.Events, page.Events...)
	for _, m := range page.Messages {
		if !slices.ContainsFunc(t.Messages, func(o cli.FoundMessage) bool {
			return o.Queue == m.Queue && o.ID == m.ID
		}) {
			t.Messages = append(t.Messages, m)
		}
	}
	if len(t.Claims)+len(t.Registrations) == 0 { // they are the same in every answer
		t.Claims = append(t.Claims, page.Claims...)
		t.Registrations = append(t.Registrations, page.Registrations...)
	}
}

// lacks reports whether an answer leaves out more than the histories of the next one.
func (t *traced) lacks() bool {
	return slices.ContainsFunc(t.Unknown, func(u notKnown) bool {
		return u.Why != "off" && u.Why != "gone"
	})
}

func addNew[T comparable](to, from []T) []T {
	for _, x := range from {
		if !slices.Contains(to, x) {
			to = append(to, x)
		}
	}
	return to
}

// read adds claims and registrations of a store that is not the server. It returns the ids of
// messages that they name.
func (t *traced) read(
	ctx context.Context, store *cli.RecordStore, ledger string,
) (ids []string, err error) {
	r := &timeline.Records{Store: store, Ledger: ledger}
	var queues []string
	for _, e := range t.Events {
		queues = addNew(queues, slices.DeleteFunc([]string{e.Queue, e.To, e.From},
			func(name string) bool { return name == "" }))
	}
	if _, dynamo := store.Place.(*cli.DynamoPlace); dynamo { // to list is to read the whole table
		t.Unknown = append(t.Unknown, notKnown{"registrations", "", "bound",
			"in DynamoDB, registrations are looked for only for the queues that the server names"})
	} else {
		found, more, err := r.Queues(ctx)
		if err != nil {
			return nil, err
		}
		if queues = addNew(queues, found); more {
			t.Unknown = append(t.Unknown, notKnown{"registrations", "", "bound",
				"more queues have registrations than are looked at"})
		}
	}
	base, generation := timeline.Base(t.asked)
	keys := addNew([]string{base}, t.Keys)
	for _, e := range t.Events {
		generation = max(generation, int(min(e.Generation, timeline.GenerationsMax-1)))
	}
	for _, key := range keys {
		if name, _ := timeline.Base(key); name != key {
			continue
		}
		if _, err := r.Read(ctx, key, generation, queues); err != nil {
			return nil, err
		}
	}
	if t.Records = store.Place.String(); t.Now.IsZero() {
		t.Now = time.Now().UTC()
	}
	t.Keys = keys
	t.Claims = append(t.Claims, r.Claims...)
	t.Registrations = append(t.Registrations, r.Registrations...)
	t.Events = append(t.Events, r.Events...)
	for _, c := range r.Claims {
		ids = addNew(ids, []string{c.Message})
	}
	for _, s := range r.Registrations {
		ids = addNew(ids, []string{s.Message})
	}
	return slices.DeleteFunc(ids, func(id string) bool { return !uuid.MatchString(id) }), nil
}
