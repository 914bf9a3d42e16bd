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

type enqueueFlags struct {
	*flags
	m       outbox.Message // what the flags say of it
	file    string
	headers []string
	lines   bool
}

func newEnqueueCmd(a *cli.App, o *flags) *cobra.Command {
	f := &enqueueFlags{flags: o}
	cmd := &cobra.Command{
		Use:   "enqueue [BODY|-] --to QUEUE",
		Short: "Write a row into an outbox",
		Long: `Write a row into an outbox and print its id, for scripts, tests and repairs. A
program writes its rows itself, in the transaction to which they belong.

The body is the argument, standard input if the argument is -, or a file.

With --key the row is registered once. The same command again adds nothing: it
prints the id of that row, and a note on standard error. Another body, group or
header under the same --key, --to and --type is refused with exit code 4. The
registration lasts as long as the row: until --keep of the relay has passed
after the send. To write several rows about one key, name the work of each row
with --dedup.

With --lines each line of standard input is a row, as a JSON object. All rows
are written in one transaction. Lines with the same key are separate rows. The
members are those of "tenaq outbox parked show --json":

  queue, body      required
  key              what the message is about; on a FIFO queue also its group
  id               a UUID that the outbox does not have (default: a new one)
  type, headers    the attribute "type", and an object of strings: attributes
  group, dedup     the message group, and the name of the work
  after            do not send before this moment, such as 2026-01-31T12:00:00Z
  generation       of a replay`,
		Example: `  tenaq outbox enqueue '{"id": 17}' --to orders --key 17 --type order_placed --db sqlite:app.db
  tenaq outbox enqueue --file order.json --to orders.fifo --key 17 --header tenant=a --after 10m
  echo '{"queue": "orders", "key": "17", "body": "hello"}' | tenaq outbox enqueue --lines`,
		Args: cli.Wants(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			messages, err := f.messages(cmd.Context(), a, cmd.Flags(), args)
			if err != nil {
				return err
			}
			return f.with(func(ctx context.Context, o *openOutbox, _ []string) error {
				return f.write(ctx, a, o, messages)
			})(cmd, nil)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.m.Queue, "to", "", "`queue` of the message, as relays know it")
	flags.StringVar(&f.m.Key, "key", "", "what the message is about, as `text`")
	flags.StringVar(&f.m.Type, "type", "", "kind of event, an attribute, as `text`")
	flags.StringVar(&f.m.Group, "group", "", "message group `id`; keeps the order of its rows")
	flags.StringVar(&f.m.Dedup, "dedup", "", "`name` of the work (default: the id of the row)")
	flags.StringArrayVar(&f.headers, "header", nil, "attribute as `NAME=VALUE`; may be repeated")
	cli.Value(flags, &f.m.After, "after", "",
		"send after this `time`: 10m, or 2026-01-31T12:00:00Z", moment(time.Now(), 1))
	flags.StringVar(&f.file, "file", "", "read the body from this `file`")
	flags.BoolVar(&f.lines, "lines", false, "read rows from standard input, a JSON object a line")
	return cmd
}

func (f *enqueueFlags) write(
	ctx context.Context, a *cli.App, o *openOutbox, messages []outbox.Message,
) (err error) {
	once := f.m.Key != "" && f.m.Dedup == "" && !f.lines
	ids, added := []string{}, len(messages)
	for i := range messages {
		m := &messages[i]
		switch {
		case once:
			m.ID = registeredID(m)
		case m.ID == "":
			m.ID = outbox.NewID()
		}
		ids = append(ids, m.ID)
	}
	if once {
		added, err = o.register(ctx, a, messages[0])
	} else {
		err = explain(o.place, o.Enqueue(ctx, messages...))
	}
	switch {
	case err != nil:
		return err
	case a.JSON:
		return a.PrintJSON(map[string]any{"outbox": o.place.String(), "ids": ids, "added": added})
	}
	return a.PrintText(strings.Join(ids, "\n") + "\n")
}

func registeredID(m *outbox.Message) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "tenaq outbox enqueue\n%q\n%q\n%q", m.Queue, m.Key,
		m.Type))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // a UUID of version 8
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// register writes a row unless the outbox has it, and returns how many it has written.
func (o *openOutbox) register(
	ctx context.Context, a *cli.App, m outbox.Message,
) (added int, err error) {
	there, err := o.EnqueueOnce(ctx, m)
	if err != nil || there == nil {
		return 1, explain(o.place, err)
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
		return 0, cli.Codedf(cli.ExitRefused,
			"key %q is registered for %s with another %s, as row %s; nothing was added. Use another --key, or name the work with --dedup",
			m.Key, m.Queue, strings.Join(differs, " and "), m.ID)
	}
	a.Note("key %q is registered for %s already; nothing was added", m.Key, m.Queue)
	return 0, nil
}

func (f *enqueueFlags) messages(
	ctx context.Context, a *cli.App, flags *pflag.FlagSet, args []string,
) (_ []outbox.Message, err error) {
	if f.lines {
		for _, name := range []string{"to", "key", "type", "group", "dedup", "header", "after",
			"file"} {
			if flags.Changed(name) {
				return nil, cli.Usagef("--lines reads everything from standard input; leave out --%s", name)
			}
		}
		if len(args) > 0 && args[0] != "-" {
			return nil, cli.Usagef("--lines reads everything from standard input; leave out the body")
		}
		return cli.UnlessInterrupted(ctx, func() ([]outbox.Message, error) {
			return readLines(a.Stdin)
		})
	}
	m := f.m
	if m.Queue == "" {
		return nil, cli.Usagef("which queue? Add --to QUEUE")
	}
	if m.Headers, err = cli.ParsePairs("--header", f.headers); err != nil {
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

const linesMax = 64 << 20

func readLines(r io.Reader) (messages []outbox.Message, err error) {
	text, err := io.ReadAll(io.LimitReader(r, linesMax+1))
	switch {
	case err != nil:
		return nil, cli.Codedf(cli.ExitFailed, "read standard input: %v", err)
	case len(text) > linesMax:
		return nil, cli.Usagef("standard input is longer than %s, which is too much for one transaction; write it in parts", cli.HumanSize(linesMax))
	}
	number := 0
	for text := range bytes.Lines(text) {
		number++
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		m, err := readLine(text)
		if err != nil {
			return nil, cli.Usagef("line %d: %v; nothing was written", number, err)
		}
		messages = append(messages, m)
	}
	if len(messages) == 0 {
		return nil, cli.Usagef("standard input has no rows; write one JSON object per line, such as %s", `{"queue": "orders", "body": "hello"}`)
	}
	return messages, nil
}

func readLine(text []byte) (m outbox.Message, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if d.More() {
		return m, errors.New("it has more than one value")
	}
	return m, m.Check()
}

// moment reads a moment, a day, or a duration: from now on or, with a sign of -1, before now.
func moment(now time.Time, sign time.Duration) func(string) (time.Time, error) {
	return func(text string) (time.Time, error) {
		for _, form := range []string{time.RFC3339, time.DateOnly} {
			if t, err := time.Parse(form, text); err == nil {
				return t, nil
			}
		}
		d, err := cli.ParseDuration(text)
		if err != nil {
			return time.Time{}, fmt.Errorf("%w, a day or a moment such as 2026-01-31T12:00:00Z",
				err)
		}
		return now.Add(sign * d), nil
	}
}
