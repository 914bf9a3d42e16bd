package serve

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	transfer "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"tenaq/internal/cli"
	"tenaq/internal/server/backup"
)

// A bucket is where backups lie in S3, or in a store with the same API: the objects whose keys
// begin with a prefix and go on as nameOf says. Other objects are neither listed nor removed.
//
// A backup is one object. S3 shows an object only when all of it is stored, so a backup is whole or
// not there. [DUR-38]
type bucket struct {
	name, prefix string
	endpoint     cli.Endpoint
	client       *s3.Client
	transfer     *transfermanager.Client
}

// partBytes is the size of the parts in which a backup is stored, three of which are in memory.
// There are at most 10,000 parts, so those of a backup of over 160 GB are larger.
const partBytes = 16 << 20

// abortTimeout bounds how long a failed backup takes to remove its parts.
const abortTimeout = 10 * time.Second

// bucketScheme begins the address of a bucket: s3://BUCKET/PREFIX/.
const bucketScheme = "s3://"

// openBucket returns the bucket at an address, and the rest of the address if that is the key of a
// backup. It connects to nothing.
func openBucket(ctx context.Context, address string) (b *bucket, key string, err error) {
	b = &bucket{endpoint: cli.ServiceEndpoint("S3", os.Getenv)}
	b.name, b.prefix, _ = strings.Cut(strings.TrimPrefix(address, bucketScheme), "/")
	if b.name == "" {
		return nil, "", cli.Usagef("%q names no bucket; write s3://BUCKET/PREFIX/", address)
	}
	if strings.HasSuffix(b.prefix, ".tar") {
		slash := strings.LastIndexByte(b.prefix, '/') + 1
		b.prefix, key = b.prefix[:slash], b.prefix
	} else if b.prefix != "" && !strings.HasSuffix(b.prefix, "/") {
		b.prefix += "/"
	}
	cfg, err := cli.AWSConfig(ctx, b.endpoint, cli.ResolveRegion("", os.Getenv))
	if err != nil {
		return nil, "", err
	}
	checksums := aws.RequestChecksumCalculationWhenSupported
	b.client = s3.NewFromConfig(cfg, func(o *s3.Options) {
		if !b.endpoint.IsAmazon() {
			// Other stores may know neither names of buckets in host names nor every checksum. A
			// backup has checksums of its own.
			o.BaseEndpoint, o.UsePathStyle = aws.String(b.endpoint.URL), true
			checksums = aws.RequestChecksumCalculationWhenRequired
			o.RequestChecksumCalculation = checksums
			o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		}
	})
	b.transfer = transfermanager.New(b.client, func(o *transfermanager.Options) {
		o.PartSizeBytes, o.MultipartUploadThreshold, o.Concurrency = partBytes, partBytes, 2
		o.FailTimeout, o.RequestChecksumCalculation = abortTimeout, checksums
		o.GetObjectType = transfer.GetObjectRanges // not every store reads by part
	})
	return b, key, nil
}

func (b *bucket) String() string { return bucketScheme + b.name + "/" + b.prefix }

// A stored backup is one in a bucket.
type stored struct {
	URL   string    `json:"url"`
	Taken time.Time `json:"taken"`
	Store string    `json:"store"` // the first 16 digits of its identity
	Bytes int64     `json:"bytes"`

	key string
}

const (
	takenForm = "20060102T150405.000Z"
	storeLen  = 16
)

var nameForm = regexp.MustCompile(`^tenaq-([0-9]{8}T[0-9]{6}\.[0-9]{3}Z)-([0-9a-f]{16})\.tar$`)

// nameOf is the name of a backup. Names of one store sort by time.
func nameOf(m backup.Manifest) string {
	store := m.Store[:min(storeLen, len(m.Store))]
	return "tenaq-" + m.Taken.UTC().Format(takenForm) + "-" + store + ".tar"
}

// readName reads what nameOf says of the backup with a key.
func (b *bucket) readName(key string) (s stored, ok bool) {
	parts := nameForm.FindStringSubmatch(strings.TrimPrefix(key, b.prefix))
	if parts == nil {
		return s, false
	}
	taken, err := time.Parse(takenForm, parts[1])
	return stored{URL: bucketScheme + b.name + "/" + key, Taken: taken, Store: parts[2], key: key},
		err == nil
}

// list returns the backups in the bucket, the newest first.
func (b *bucket) list(ctx context.Context) ([]stored, error) {
	found := []stored{}
	pages := s3.NewListObjectsV2Paginator(b.client,
		&s3.ListObjectsV2Input{Bucket: &b.name, Prefix: aws.String(b.prefix + "tenaq-")})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, b.explain(ctx, "list the backups", "s3:ListBucket", err)
		}
		for _, o := range page.Contents {
			if s, ok := b.readName(aws.ToString(o.Key)); ok {
				s.Bytes = aws.ToInt64(o.Size)
				found = append(found, s)
			}
		}
	}
	slices.SortFunc(found, func(x, y stored) int {
		return cmp.Or(y.Taken.Compare(x.Taken), cmp.Compare(x.key, y.key))
	})
	return found, nil
}

// A storing writes a backup into a bucket as it is read. The object gets its name when begin is
// told of the manifest, and appears when commit succeeds.
type storing struct {
	b    *bucket
	ctx  context.Context
	head []byte // what was written before the name was known
	pipe *io.PipeWriter
	done chan error
}

func (s *storing) Write(p []byte) (int, error) {
	if s.pipe == nil {
		s.head = append(s.head, p...)
		return len(p), nil
	}
	return s.pipe.Write(p)
}

// begin begins to store a backup. bytes is its size, 0 if that is not known.
func (s *storing) begin(m backup.Manifest, bytes int64) error {
	if s.pipe != nil {
		return nil
	}
	in, pipe := io.Pipe()
	s.pipe, s.done = pipe, make(chan error, 1)
	key := s.b.prefix + nameOf(m)
	go func() {
		_, err := s.b.transfer.UploadObject(s.ctx, &transfermanager.UploadObjectInput{
			Bucket: &s.b.name, Key: &key, Body: in, ContentType: aws.String("application/x-tar"),
			ContentLength: &bytes,
		})
		in.CloseWithError(cmp.Or(err, io.ErrClosedPipe))
		s.done <- err
	}()
	_, err := s.pipe.Write(s.head)
	s.head = nil
	return err
}

// end stores what was written if cause is nil, and else nothing. It returns the error of the
// bucket.
func (s *storing) end(cause error) error {
	if s.pipe == nil {
		return nil
	}
	s.pipe.CloseWithError(cause)
	err := <-s.done
	if cause != nil && errors.Is(err, cause) {
		return nil
	}
	return s.b.explain(s.ctx, "store the backup", "s3:PutObject and s3:AbortMultipartUpload", err)
}

// tidy removes what commands that were killed have left of backups of a store: parts that S3 keeps,
// and charges for, until they are told of. The server makes one backup at a time, so none of them
// will be completed. A store that does not list uploads keeps them. [DUR-40]
func (b *bucket) tidy(ctx context.Context, store string) error {
	pages := s3.NewListMultipartUploadsPaginator(b.client,
		&s3.ListMultipartUploadsInput{Bucket: &b.name, Prefix: aws.String(b.prefix + "tenaq-")})
	const rights = "s3:ListBucketMultipartUploads and s3:AbortMultipartUpload"
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return b.explain(ctx, "look for unfinished backups", rights, err)
		}
		for _, u := range page.Uploads {
			if s, ok := b.readName(aws.ToString(u.Key)); !ok || s.Store != store {
				continue
			}
			if _, err := b.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
				Bucket: &b.name, Key: u.Key, UploadId: u.UploadId}); err != nil {
				return b.explain(ctx, "remove an unfinished backup", rights, err)
			}
		}
	}
	return nil
}

// keep removes all backups of a store but the newest. [DUR-39]
func (b *bucket) keep(ctx context.Context, store string, newest int) (removed int, err error) {
	found, err := b.list(ctx)
	if err != nil {
		return 0, err
	}
	for _, s := range found {
		if s.Store != store {
			continue
		}
		if newest--; newest >= 0 {
			continue
		}
		if _, err := b.client.DeleteObject(ctx,
			&s3.DeleteObjectInput{Bucket: &b.name, Key: &s.key}); err != nil {
			return removed, b.explain(ctx, "remove "+s.URL, "s3:DeleteObject", err)
		}
		removed++
	}
	return removed, nil
}

// open returns the backup with a key, and its address. Without a key it is the newest.
func (b *bucket) open(ctx context.Context, key string) (in io.Reader, url string, err error) {
	if key == "" {
		found, err := b.list(ctx)
		if err != nil {
			return nil, "", err
		}
		if len(found) == 0 {
			return nil, "", cli.Codedf(cli.ExitNotFound,
				"%s has no backup; check the address, or take one: tenaq backup %s", b, b)
		}
		key = found[0].key
	}
	url = bucketScheme + b.name + "/" + key
	out, err := b.transfer.GetObject(ctx,
		&transfermanager.GetObjectInput{Bucket: &b.name, Key: &key})
	if err != nil {
		return nil, "", b.explain(ctx, "read "+url, "s3:GetObject", err)
	}
	return readerFunc(func(p []byte) (int, error) {
		n, err := out.Body.Read(p)
		if err != nil && err != io.EOF {
			err = b.explain(ctx, "read "+url, "s3:GetObject", err)
		}
		return n, err
	}), url, nil
}

// explain says what to do about an error of the bucket; nil for nil.
func (b *bucket) explain(ctx context.Context, doing, rights string, err error) error {
	var answer smithy.APIError
	switch errors.As(err, &answer); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return cli.Codedf(cli.ExitFailed, "%s: interrupted", doing)
	case errors.Is(err, syscall.ECONNREFUSED):
		return cli.Codedf(cli.ExitFailed,
			"nothing listens at %s; check the address, which comes from %s", b.endpoint,
			b.endpoint.Origin)
	case answer == nil:
		return cli.Codedf(cli.ExitFailed, "%s: %v", doing, err)
	}
	code, message := answer.ErrorCode(), strings.TrimSuffix(answer.ErrorMessage(), ".")
	_, noKey := errors.AsType[*types.NoSuchKey](err)
	switch {
	case noKey, code == "NotFound":
		return cli.Codedf(cli.ExitNotFound, "%s: there is no such backup; see: tenaq backup list %s",
			doing, b)
	case code == "NoSuchBucket":
		return cli.Codedf(cli.ExitNotFound, "%s: %s has no bucket %s; create it first", doing,
			b.endpoint, b.name)
	case code == "AccessDenied" || cli.IsCredentialError(code):
		return cli.Codedf(cli.ExitFailed,
			"%s: %s refuses it: %s (%s); check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, and that the key may do %s",
			doing, b.endpoint, message, code, rights)
	}
	return cli.Codedf(cli.ExitFailed, "%s: %s: %s", doing, b.endpoint,
		strings.TrimSuffix(message+" ("+code+")", " ()"))
}
