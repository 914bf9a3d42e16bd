package dead

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func newNoteCmd(a *cli.App) *cobra.Command {
	var f cli.ClientFlags
	var remove bool
	note := &cobra.Command{
		Use:   "note QUEUE KIND [TEXT]",
		Short: "Write a note about a kind of failure, for the next person on call",
		Long: `Write a note about a kind of failure of a dead-letter queue, for the next person
on call. "tenaq dead list" shows the kinds with their notes, and so does the
console. A note is one line of at most 500 bytes. It takes the place of an
earlier one, and stays when the messages of its kind have gone.`,
		Example: `  tenaq dead note orders-dlq 1s0wr2gl1hd7d "ask the bank first"
  tenaq dead note orders-dlq 1s0wr2gl1hd7d --remove`,
		Args: cli.Wants(2, 3),
		PreRunE: func(_ *cobra.Command, args []string) error {
			switch {
			case remove && len(args) == 3:
				return cli.Usagef("give either a text or --remove")
			case !remove && (len(args) < 3 || args[2] == ""):
				return cli.Usagef("give the text of the note, or --remove")
			}
			return nil
		},
		RunE: f.OnQueueV1(listLack, func(
			ctx context.Context, v *cli.V1Client, queue string, args []string,
		) error {
			kind, text := args[0], ""
			says := "%s: removed the note on kind %s"
			if !remove {
				text, says = args[1], "%s: noted kind %s"
			}
			path := "/queues/" + url.PathEscape(queue) + "/reasons/" + url.PathEscape(kind) +
				"/note"
			in := map[string]string{"text": text}
			if err := v.Post(ctx, "write a note about", queue, path, in, &struct{}{}); err != nil {
				return err
			}
			in["queue"], in["kind"] = queue, kind
			return a.Result(in, says, queue, kind)
		}),
	}
	f.Register(note)
	note.Flags().BoolVar(&remove, "remove", false, "remove the note")
	return note
}
