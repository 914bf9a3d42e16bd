package outbox

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tenaq/internal/cli"
	"tenaq/outbox"
)

type outboxEnqueueFlags struct {
	*flags
	to, key, kind, group, dedup, after, file string
	headers                                  []string
	lines                                    bool
}

func newOutboxEnqueueCmd(a *cli.App, o *flags) *cobra.Command {
	f := &outboxEnqueueFlags{flags: o}
	cmd := &cobra.Command{
		Use:   "enqueue [BODY|-] --to QUEUE",
		Short: "Write a row into an outbox",
		Long: `Write a row into an outbox and print its id, for scripts, tries and repairs. A program writes its rows itself,
in the transaction that they belong to.

The body is the argument, standard input when the argument is -, or a file.

With --key the row is registered once: the same command again adds nothing, prints the id of the row that is
there, and says so on standard error. The key names the row together with --to and --type. Another body, group
or header under the same key is refused with exit code 4. The registration lasts as long as the row stays in
the outbox: for --keep of the relay after it was sent. The same command after that writes a row with the same
id, and workers with a ledger know its work again. To write several rows about one thing, name the work of
each with --dedup: then --key is only what they are about.

With --lines each line of standard input is a row, as a JSON object; empty lines are skipped. All rows are
written in one transaction: all or none. Lines with the same key are rows of their own. The members of a line
are called as in "tenaq outbox parked show --json":

  queue and body   needed
  key              what the message is about; on a FIFO queue also its group, unless there is another
  id               a UUID; a new one when missing. One that is in the outbox already is refused
  type, headers    the attribute "type", and an object of strings that become attributes
  group, dedup     the message group, and the name of the work for deduplication
  after            when it is to be sent, not before, such as 2026-01-31T12:00:00Z
  generation       of a replay

` + outboxHelp,
		Example: `  tenaq outbox enqueue '{"id": 17}' --to orders --key 17 --type order_placed --db sqlite:app.db
  tenaq outbox enqueue --file order.json --to orders.fifo --key 17 --header tenant=a --after 10m
  echo '{"queue": "orders", "key": "17", "body": "hello"}' | tenaq outbox enqueue --lines`,
		Args: cli.Wants(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			messages, err := f.messages(cmd.Context(), a, cmd.Flags(), args)
			if err != nil {
				return err
			}
			ids := []string{}
			for i := range messages {
				m := &messages[i]
				switch {
				case f.once():
					m.ID = registeredID(m)
				case m.ID == "":
					m.ID = outbox.NewID()
				}
				ids = append(ids, m.ID)
			}
			o, err := f.Open(cmd.Context())
			if err != nil {
				return err
			}
			defer o.Close()
			added := len(messages)
			if f.once() {
				added, err = enqueueOnce(a, cmd.Context(), o.place, messages[0])
			} else {
				err = o.place.enqueue(cmd.Context(), messages)
			}
			if err != nil {
				return err
			}
			if a.JSON {
				return a.PrintJSON(map[string]any{"outbox": o.place.String(), "ids": ids, "added": added})
			}
			for _, id := range ids {
				if err := a.PrintText(id + "\n"); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.to, "to", "", "the `queue`, as relays know it")
	flags.StringVar(&f.key, "key", "", "what the message is about, as a `text`; without --dedup the row is written once for it")
	flags.StringVar(&f.kind, "type", "", "the kind of event, as a `text`; an attribute of the message")
	flags.StringVar(&f.group, "group", "", "the message group `id`; rows of one queue and group are sent in order")
	flags.StringVar(&f.dedup, "dedup", "", "the `name` of the work, for deduplication (default: the id of the row)")
	flags.StringArrayVar(&f.headers, "header", nil, "an attribute of the message, as `NAME=VALUE`; may be repeated")
	flags.StringVar(&f.after, "after", "", "send it after this `time`: a duration from now, such as 10m, or a moment, such as 2026-01-31T12:00:00Z")
	flags.StringVar(&f.file, "file", "", "read the body from this `file`")
	flags.BoolVar(&f.lines, "lines", false, "each line of standard input is a row, as a JSON object")
	return cmd
}

// once reports whether the row is to be there once, however often the command is run.
func (f *outboxEnqueueFlags) once() bool { return f.key != "" && f.dedup == "" && !f.lines }

// registeredID is the ID of the row that is written once for a queue, a key and a type.
func registeredID(m *outbox.Message) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "tenaq outbox enqueue\n%q\n%q\n%q", m.Queue, m.Key, m.Type))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // a UUID of version 8
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// enqueueOnce writes a row unless it is there, and returns how many it has written.
func enqueueOnce(a *cli.App, ctx context.Context, place place, m outbox.Message) (added int, err error) {
	there, err := place.enqueueOnce(ctx, m)
	if err != nil || there == nil {
		return 1, err
	}
	var differs []string
	if there.Body != m.Body {
		differs = append(differs, "body")
	}
	if there.Group != m.Group {
		differs = append(differs, "group")
	}
	if !maps.Equal(there.Headers, m.Headers) {
		differs = append(differs, "headers")
	}
	if len(differs) > 0 {
		return 0, cli.Codedf(cli.ExitRefused, "key %q is registered for %s with another %s, as row %s; nothing was added. Use another --key, or name the work with --dedup",
			m.Key, m.Queue, strings.Join(differs, " and "), m.ID)
	}
	a.Note("key %q is registered for %s already; nothing was added", m.Key, m.Queue)
	return 0, nil
}

// messages reads what is to be written.
func (f *outboxEnqueueFlags) messages(ctx context.Context, a *cli.App, flags *pflag.FlagSet, args []string) ([]outbox.Message, error) {
	if f.lines {
		for _, name := range []string{"to", "key", "type", "group", "dedup", "header", "after", "file"} {
			if flags.Changed(name) {
				return nil, cli.Usagef("--lines reads everything from standard input; leave out --%s", name)
			}
		}
		if len(args) > 0 && args[0] != "-" {
			return nil, cli.Usagef("--lines reads everything from standard input; leave out the body")
		}
		return cli.UnlessInterrupted(ctx, func() ([]outbox.Message, error) { return readOutboxLines(a.Stdin) })
	}
	m, err := f.message(time.Now())
	if err != nil {
		return nil, err
	}
	if m.Body, err = a.ReadBody(ctx, args, f.file); err != nil {
		return nil, err
	}
	if err := m.Check(); err != nil {
		return nil, cli.Usagef("the row cannot be sent: %v", err)
	}
	return []outbox.Message{m}, nil
}

// message reads the flags. What is missing is the body.
func (f *outboxEnqueueFlags) message(now time.Time) (m outbox.Message, err error) {
	if f.to == "" {
		return m, cli.Usagef("where does it go? Add --to QUEUE")
	}
	m = outbox.Message{Queue: f.to, Key: f.key, Type: f.kind, Group: f.group, Dedup: f.dedup}
	for _, text := range f.headers {
		name, value, ok := strings.Cut(text, "=")
		_, twice := m.Headers[name]
		switch {
		case !ok || name == "":
			return m, cli.Usagef("--header: %q is not NAME=VALUE", text)
		case twice:
			return m, cli.Usagef("--header: %s is given twice", name)
		case m.Headers == nil:
			m.Headers = map[string]string{}
		}
		m.Headers[name] = value
	}
	if f.after != "" {
		if m.After, err = parseAfter(f.after, now); err != nil {
			return m, cli.Usagef("--after: %v", err)
		}
	}
	return m, nil
}

// parseAfter reads a moment, or a duration from now on.
func parseAfter(s string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t, nil
	}
	d, err := cli.ParseDuration(s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%w, nor a moment such as 2026-01-31T12:00:00Z", err)
	}
	return now.Add(d), nil
}

// outboxLinesMax bounds what one transaction writes.
const outboxLinesMax = 64 << 20

// An outboxLine is a row in a line of JSON.
type outboxLine struct {
	ID, Queue, Key, Type, Body, Group, Dedup string
	Headers                                  map[string]string
	After                                    time.Time
	Generation                               int
}

func readOutboxLines(r io.Reader) (messages []outbox.Message, err error) {
	text, err := io.ReadAll(io.LimitReader(r, outboxLinesMax+1))
	switch {
	case err != nil:
		return nil, cli.Codedf(cli.ExitFailed, "read standard input: %v", err)
	case len(text) > outboxLinesMax:
		return nil, cli.Usagef("standard input is longer than %s, which is too much for one transaction; write it in parts", cli.HumanSize(outboxLinesMax))
	}
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		m, err := readOutboxLine(line)
		if err != nil {
			return nil, cli.Usagef("line %d: %v; nothing was written", number, err)
		}
		messages = append(messages, m)
	}
	if len(messages) == 0 {
		return nil, cli.Usagef("there is no line on standard input; write one JSON object per row, such as %s", `{"queue": "orders", "body": "hello"}`)
	}
	return messages, nil
}

func readOutboxLine(line []byte) (outbox.Message, error) {
	var l outboxLine
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return outbox.Message{}, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if d.More() {
		return outbox.Message{}, errors.New("more than one value")
	}
	m := outbox.Message{
		ID: l.ID, Queue: l.Queue, Key: l.Key, Type: l.Type, Body: l.Body, Group: l.Group, Dedup: l.Dedup,
		Headers: l.Headers, After: l.After, Generation: l.Generation,
	}
	return m, m.Check()
}

// rowsText says a number of rows.
func rowsText(n int) string { return cli.Counted(n, "row", "rows") }
