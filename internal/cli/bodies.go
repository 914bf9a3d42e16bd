package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/spf13/cobra"

	"tenaq/offload"
)

// BodiesHelp explains --bodies in the help of every command that has it.
const BodiesHelp = `A body too large for a message (over 240 KiB with its attributes) can be kept
beside the queue; the message then carries a pointer. --bodies or TENAQ_BODIES
names the place:

  dir:PATH                a directory that all senders and receivers can reach
                          and that already holds bodies
  dir:PATH?bucket=NAME    the same, created if missing; pointers use NAME
  none                    do not keep bodies, and treat pointers as bodies

Without ?bucket=NAME, the command notices a disk that is not mounted. Pointers
are those of the Amazon SQS Extended Client Libraries. tenaq does not remove
bodies by itself; docs/offload.md has a line for cron.`

// BodiesFlags say where bodies that are too large for a message are kept.
type BodiesFlags struct{ address string }

func (f *BodiesFlags) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.address, "bodies", "",
		"`address` of large bodies (default $TENAQ_BODIES)")
}

func (f *BodiesFlags) Offloader() (*offload.Offloader, error) {
	address, origin := FlagOr("--bodies", f.address, "TENAQ_BODIES", os.Getenv)
	if address == "" || address == "none" {
		return nil, nil
	}
	place, err := parseBodiesPlace(address)
	if err != nil {
		return nil, Usagef("%s: %v", origin, err)
	}
	store, err := place.Open()
	if err != nil {
		return nil, Codedf(ExitCode(err), "%s: %w", origin, err)
	}
	o, err := offload.New(offload.Config{Store: store, BodyMax: BodyMax})
	if err != nil {
		return nil, Usagef("%s: %v", origin, err)
	}
	return o, nil
}

type bodiesPlace struct {
	path   string
	bucket string // "" for the name that it has already
}

func parseBodiesPlace(address string) (p bodiesPlace, err error) {
	const known = "dir:PATH, dir:PATH?bucket=NAME or none"
	scheme, rest, _ := strings.Cut(address, ":")
	var query string
	var named bool
	p.path, query, named = strings.Cut(rest, "?")
	switch {
	case scheme == "s3":
		return p, errors.New("the command keeps bodies in directories, as dir:PATH; S3 buckets need a program that uses package offload")
	case scheme != "dir" && strings.ContainsAny(address, `/\`) && rest == "":
		return p, fmt.Errorf("%q is not one of %s; did you mean dir:%s?", address, known, address)
	case scheme != "dir":
		return p, fmt.Errorf("an address that begins with %q is not one of %s", cmp.Or(scheme, ":"),
			known)
	case p.path == "":
		return p, errors.New("the path of the directory is missing; write dir:PATH")
	case strings.HasPrefix(p.path, "~"):
		return p, fmt.Errorf("dir:%s: %w", p.path, errTilde)
	}
	if named {
		var ok bool
		if p.bucket, ok = strings.CutPrefix(query, "bucket="); !ok || p.bucket == "" {
			return p, fmt.Errorf("?%s is not ?bucket=NAME", query)
		}
	}
	return p, nil
}

// Open opens the directory. It creates one only if the address has a bucket name: if the disk is
// not mounted, all bodies would seem lost in a new directory.
func (p bodiesPlace) Open() (offload.Store, error) {
	name, err := os.ReadFile(filepath.Join(p.path, "bucket")) // see offload.Directory
	switch {
	case errors.Is(err, fs.ErrNotExist) && p.bucket == "":
		return nil, Codedf(ExitNotFound,
			"there are no bodies in %s; check the path and that its disk is mounted, or create it with dir:%s?bucket=NAME", p.path, p.path)
	case err == nil && p.bucket != "" && p.bucket != string(name):
		return nil, Usagef("%s holds the bucket %q, not %q; leave out ?bucket=%s, or name another directory", p.path, name, p.bucket, p.bucket)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, Codedf(ExitFailed,
			"cannot open the directory of the bodies: %v; let this user read it, or name another one", err)
	}
	store, err := offload.OpenDirectory(p.path, cmp.Or(p.bucket, string(name)))
	if err != nil {
		return nil, Codedf(ExitFailed, "%v; let this user write there, or name another directory",
			err)
	}
	return store, nil
}

// A Keeper keeps the large bodies of messages to one queue. Without an offloader it does nothing.
type Keeper struct {
	offloader *offload.Offloader
	key       string
}

// NewKeeper returns the keeper for a queue. Messages that the queue deduplicates share one stored
// body: those with the same deduplication id and, on a FIFO queue without ids, those with the same
// body, because the queue then compares pointers. Every other message has a body of its own, which
// may be deleted with it.
func NewKeeper(o *offload.Offloader, queueURL string, dedupID *string) Keeper {
	switch {
	case dedupID != nil:
		return Keeper{o, *dedupID}
	case strings.HasSuffix(queueURL, ".fifo"):
		return Keeper{o, QueueNameOf(queueURL)}
	}
	return Keeper{offloader: o}
}

// Keep returns the body and the attributes to send.
func (k Keeper) Keep(
	ctx context.Context, body string, attributes map[string]types.MessageAttributeValue,
) (string, map[string]types.MessageAttributeValue, error) {
	if k.offloader == nil {
		return body, attributes, nil
	}
	kept, with, err := k.offloader.Out(ctx, k.key, body, attributes)
	switch {
	case errors.Is(err, offload.ErrUnfit):
		return "", nil, Codedf(ExitUsage, "%w", err)
	case err != nil:
		return "", nil, Codedf(ExitFailed,
			"%w; the message was not sent: let this user write there, and send it again", err)
	}
	return kept, with, nil
}

// AdviseBodies names --bodies if a message was refused for its size.
func AdviseBodies(err error, body string, o *offload.Offloader) error {
	text := err.Error()
	if o == nil && len(body) > BatchBytes && (strings.Contains(text, "must be shorter than") ||
		strings.Contains(text, "is larger than")) {
		return fmt.Errorf("%w; keep its body beside the queue with --bodies", err)
	}
	return err
}
