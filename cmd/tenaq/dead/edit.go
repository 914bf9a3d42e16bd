package dead

import (
	"context"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

type editFlags struct {
	cli.ClientFlags
	changeFlags
	to  string
	yes bool
}

func newEditCmd(a *cli.App) *cobra.Command {
	f := &editFlags{}
	edit := &cobra.Command{
		Use:   "edit QUEUE ID",
		Short: "Send a corrected message in the place of a dead letter",
		Long: `Replace a dead letter with a corrected message: the server removes one and sends
the other in one step. The new message has the same lineage and goes to the
queue where the old one came from, or to --to. A message in flight is left
alone.

ID is a message id or a lineage id. Everything that no flag changes stays the
same. Without --yes the command only shows the old and the new body.`,
		Example: `  tenaq dead edit orders-dlq 0b6b4c9e-... --body '{"id": 1}'
  tenaq dead edit orders-dlq 0b6b4c9e-... --body-file fixed.json --yes
  tenaq dead edit orders-dlq 0b6b4c9e-... --attribute retries:Number=0 --yes`,
		Args: cli.Wants(2, 2),
		RunE: f.OnQueueV1(lack, func(
			ctx context.Context, v *cli.V1Client, queue string, args []string,
		) error {
			return f.run(ctx, a, v, queue, args[0])
		}),
	}
	f.ClientFlags.Register(edit)
	f.changeFlags.register(edit, "attribute", "without")
	flags := edit.Flags()
	cli.Text(flags, &f.to, "to", "send the new message to this `queue`")
	flags.BoolVar(&f.yes, "yes", false, "do it; otherwise only show the change")
	return edit
}

// changeFlags say what changes in a message.
type changeFlags struct {
	body, file   string
	set, removed []string // attributes
	setFlag      string
}

// register adds the flags. Set and remove are the names of those for attributes.
func (f *changeFlags) register(cmd *cobra.Command, set, remove string) {
	flags := cmd.Flags()
	cli.Text(flags, &f.body, "body", "the new body, as `text`")
	cli.Text(flags, &f.file, "body-file", "`file` with the new body; - for standard input")
	flags.StringArrayVar(&f.set, set, nil, "attribute to set, `NAME=VALUE` or NAME:TYPE=...")
	flags.StringArrayVar(&f.removed, remove, nil, "attribute to remove, by its `name`")
	cmd.MarkFlagsMutuallyExclusive("body", "body-file")
	f.setFlag = "--" + set
}

func (f *editFlags) run(
	ctx context.Context, a *cli.App, v *cli.V1Client, queue, id string,
) error {
	in, err := f.change(a)
	if err != nil {
		return err
	}
	if f.to, err = v.QueueName(ctx, f.to); err != nil {
		return err
	}
	if f.to != "" {
		in["to"] = f.to
	}
	if len(in) == 0 {
		return cli.Usagef("name what to change: --body, --body-file, --attribute, --without or --to")
	}
	m, err := f.find(ctx, a, v, queue, id)
	if err != nil {
		return err
	}
	in["queue"], in["place"] = queue, m.Place
	if !f.yes {
		if a.JSON {
			return a.PrintJSON(map[string]any{"message": m, "change": in})
		}
		after := m.Beginning()
		if body, ok := in["body"].(string); ok {
			after = body
		}
		if err := a.PrintCard(nil, "", [2]string{"message", m.ID}, [2]string{"body", m.Beginning()},
			[2]string{"new body", after}); err != nil {
			return err
		}
		a.Note("nothing was changed; add --yes to do it")
		return nil
	}
	var out struct {
		ID       string `json:"messageId"`
		Lineage  string `json:"lineageId"`
		Sequence string `json:"sequenceNumber,omitempty"`
	}
	if err := v.Post(ctx, "replace a message of", queue, "/replace", in, &out); err != nil {
		return err
	}
	return a.Result(&out, "replaced %s by %s", m.ID, out.ID)
}

// find returns a message that can be replaced. The server looks it up by its id; one that an older
// version of tenaq stored is found by a count, if it can be received.
func (f *editFlags) find(
	ctx context.Context, a *cli.App, v *cli.V1Client, queue, id string,
) (*cli.Peeked, error) {
	found, err := count[taskCount](ctx, a, v, "count the messages of",
		map[string]any{"queue": queue, "filter": map[string]any{"id": id}, "back": f.to == ""}, 1)
	switch {
	case err != nil:
		return nil, err
	case len(found.Samples) > 0:
		return &found.Samples[0], nil
	case found.Skipped == 0:
		return nil, cli.Codedf(cli.ExitNotFound,
			"%s has no message %s: it was replaced, moved or deleted, has expired, or was never there; "+
				"see: tenaq peek %[1]s", queue, id)
	}
	m, err := v.Message(ctx, id, url.Values{"body": {"1024"}})
	switch {
	case err != nil:
		return nil, err
	case m.Queue != queue:
		return nil, cli.Codedf(cli.ExitNotFound, "message %s has moved to %s", id, m.Queue)
	case m.State == "in_flight":
		return nil, cli.Codedf(cli.ExitRefused,
			"message %s of %s is in flight: a consumer has received it; try again when it has returned",
			id, queue)
	case f.to == "" && (m.State == "visible" || m.Source == ""):
		return nil, cli.Codedf(cli.ExitRefused,
			"message %s of %s has no source queue in this account: name a queue with --to", id, queue)
	}
	return &m.Peeked, nil
}

// change is what the flags ask for, as the server takes it; it is empty without them.
func (f *changeFlags) change(a *cli.App) (map[string]any, error) {
	in := make(map[string]any)
	switch {
	case f.file != "":
		body, err := readFile(a, f.file)
		if err != nil {
			return nil, cli.Usagef("--body-file: %v", err)
		}
		in["body"] = string(body)
	case f.body != "":
		in["body"] = f.body
	}
	attributes := make(map[string]*cli.PeekedAttribute)
	set, err := cli.ParseMessageAttributes(f.setFlag, f.set)
	if err != nil {
		return nil, err
	}
	for name, value := range set {
		n := &cli.PeekedAttribute{Type: *value.DataType, Base64: value.BinaryValue}
		if value.StringValue != nil {
			n.Value = *value.StringValue
		}
		attributes[name] = n
	}
	for _, name := range f.removed {
		attributes[strings.TrimSpace(name)] = nil
	}
	if len(attributes) > 0 {
		in["attributes"] = attributes
	}
	return in, nil
}

// edits reports whether the flags change anything.
func (f *changeFlags) edits() bool {
	return f.body != "" || f.file != "" || len(f.set)+len(f.removed) > 0
}

func readFile(a *cli.App, path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(a.Stdin)
	}
	return os.ReadFile(path)
}
