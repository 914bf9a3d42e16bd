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

// BodiesHelp says what --bodies takes; it is part of the help of every command that has it.
const BodiesHelp = `A body that is too large for its message, over 240 KiB with the attributes, is kept beside the queue when
--bodies or TENAQ_BODIES says where, and the message has a pointer in its place:

  dir:PATH                a directory that all who send and receive can reach, and that was used so before
  dir:PATH?bucket=NAME    the same, made if it is not there; NAME is what pointers call it
  none                    nowhere, which is the default: pointers are sent and received like other bodies

Without ?bucket=NAME a disk that is not mounted is noticed. Pointers are those of the Amazon SQS Extended
Client Libraries. Bodies are not removed unless somebody says so; docs/offload.md has a line for cron.`

// BodiesFlags say where bodies are kept that are too large for their messages.
type BodiesFlags struct{ address string }

func (f *BodiesFlags) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.address, "bodies", "", "`address` of the place where bodies are kept that are too large for a message: dir:PATH, or none (default $TENAQ_BODIES)")
}

// Offloader returns what keeps and fetches bodies; nil when that is nobody.
func (f *BodiesFlags) Offloader() (*offload.Offloader, error) {
	address, origin := f.address, "--bodies"
	if address == "" {
		address, origin = os.Getenv("TENAQ_BODIES"), "TENAQ_BODIES"
	}
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

// A bodiesPlace is a directory with bodies, or one that could have some.
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
		return p, errors.New("the command keeps bodies in directories, as dir:PATH; a bucket of S3 is for programs that use package offload")
	case scheme != "dir" && strings.ContainsAny(address, `/\`) && rest == "":
		return p, fmt.Errorf("%q is none of %s; did you mean dir:%s?", address, known, address)
	case scheme != "dir":
		return p, fmt.Errorf("what begins with %q is none of %s", cmp.Or(scheme, ":"), known)
	case p.path == "":
		return p, errors.New("the path of the directory is missing; write dir:PATH")
	case strings.HasPrefix(p.path, "~"):
		return p, fmt.Errorf("dir:%s: only a shell knows what ~ means, and only at the beginning of a word; write the whole path", p.path)
	}
	if named {
		var ok bool
		if p.bucket, ok = strings.CutPrefix(query, "bucket="); !ok || p.bucket == "" {
			return p, fmt.Errorf("?%s is not ?bucket=NAME", query)
		}
	}
	return p, nil
}

// Open opens the directory. It makes one only under a name that it is given: in a directory that is new because its disk
// is not mounted all bodies would seem to be lost.
func (p bodiesPlace) Open() (offload.Store, error) {
	name, err := os.ReadFile(filepath.Join(p.path, "bucket")) // see offload.Directory
	switch {
	case errors.Is(err, fs.ErrNotExist) && p.bucket == "":
		return nil, Codedf(ExitNotFound, "there are no bodies in %s; check the path, and that its disk is mounted, or have it made with dir:%s?bucket=NAME", p.path, p.path)
	case err == nil && p.bucket != "" && p.bucket != string(name):
		return nil, Usagef("pointers call %s %q, and not %q; leave out ?bucket=%s, or name another directory", p.path, name, p.bucket, p.bucket)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, Codedf(ExitFailed, "open the directory of the bodies: %v; let this user read it, or name another one", err)
	}
	store, err := offload.OpenDirectory(p.path, cmp.Or(p.bucket, string(name)))
	if err != nil {
		return nil, Codedf(ExitFailed, "%v; let this user write there, or name another directory", err)
	}
	return store, nil
}

// A Keeper keeps the bodies that are too large of messages to one queue. Without an offloader it does nothing.
type Keeper struct {
	offloader *offload.Offloader
	key       string
}

// NewKeeper returns the keeper for a queue. By the key of a body it is stored once for all messages that are meant to be
// one: those with the same deduplication id and, on a FIFO queue without ids, those with the same body, because the
// queue compares pointers then. Every other message has a body of its own, which may be deleted with it.
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
func (k Keeper) Keep(ctx context.Context, body string, attributes map[string]types.MessageAttributeValue) (string, map[string]types.MessageAttributeValue, error) {
	if k.offloader == nil {
		return body, attributes, nil
	}
	kept, with, err := k.offloader.Out(ctx, k.key, body, attributes)
	switch {
	case errors.Is(err, offload.ErrUnfit):
		return "", nil, Codedf(ExitUsage, "%w", err)
	case err != nil:
		return "", nil, Codedf(ExitFailed, "%w; it was not sent: see that this user can write there, and send it again", err)
	}
	return kept, with, nil
}

// AdviseBodies names --bodies where a message was refused that is large enough for it.
func AdviseBodies(err error, body string, o *offload.Offloader) error {
	text := err.Error()
	if o == nil && len(body) > BatchBytes && (strings.Contains(text, "must be shorter than") || strings.Contains(text, "is larger than")) {
		return fmt.Errorf("%w; keep its body beside the queue with --bodies", err)
	}
	return err
}
