// Package s3offload keeps bodies in a bucket of S3, or of a store with the same API, one object per
// body.
//
//	store, err := s3offload.New(s3offload.Config{Client: s3.NewFromConfig(cfg), Bucket: "orders-bodies"})
//	...
//	o, err := offload.New(offload.Config{Store: store})
//
// Pointers hold the name of the bucket, so the bucket can be shared with programs that use the
// Amazon SQS Extended Client Libraries.
//
// Put is one PutObject, which is atomic, and Get is one GetObject, which sees every earlier put.
// Encryption, expiry and access are rules of the bucket. A role needs these rights:
//
//   - to send: s3:PutObject, and kms:GenerateDataKey if the bucket is encrypted with a key
//   - to receive: s3:GetObject and s3:ListBucket, and kms:Decrypt for the key
//   - to delete bodies: s3:DeleteObject
//
// Without s3:ListBucket, S3 answers AccessDenied for a missing body. Then a missing body looks like
// one that can be read once the role is corrected.
//
// Other implementations of S3 may need UsePathStyle, and RequestChecksumCalculation set to when
// required, in the options of the client.
package s3offload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"tenaq/offload"
)

// S3 is what a store needs of a client. *s3.Client has it.
type S3 interface {
	PutObject(context.Context, *s3.PutObjectInput,
		...func(*s3.Options)) (*s3.PutObjectOutput, error)
	GetObject(context.Context, *s3.GetObjectInput,
		...func(*s3.Options)) (*s3.GetObjectOutput, error)
	DeleteObject(context.Context, *s3.DeleteObjectInput,
		...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
}

// Config configures a Store. Client and Bucket are required.
type Config struct {
	Client S3
	Bucket string // the name of the bucket, which must exist

	// Owner, if set, is the account that must own the bucket. After a bucket is deleted, another
	// account may create one of the same name.
	Owner string
}

// A Store keeps bodies in one bucket.
type Store struct {
	client S3
	bucket string
	owner  *string // nil for any
}

var _ offload.Store = (*Store)(nil)

// New returns a store over a bucket. It does not use the bucket.
func New(cfg Config) (*Store, error) {
	switch {
	case cfg.Client == nil:
		return nil, errors.New("s3offload: Config.Client is missing: set it to a client of S3 (s3.NewFromConfig)")
	case cfg.Bucket == "":
		return nil, errors.New("s3offload: Config.Bucket is missing: set it to the name of the bucket of the bodies")
	}
	s := &Store{client: cfg.Client, bucket: cfg.Bucket}
	if cfg.Owner != "" {
		s.owner = &cfg.Owner
	}
	return s, nil
}

// Bucket returns the name of the bucket.
func (s *Store) Bucket() string { return s.bucket }

// Put stores a body as an object.
func (s *Store) Put(ctx context.Context, key string, body []byte) error {
	_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: &key, ExpectedBucketOwner: s.owner,
		Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))),
	})
	return err
}

// Get returns the body that an object holds.
func (s *Store) Get(ctx context.Context, key string, most int) ([]byte, error) {
	out, err := s.client.GetObject(ctx,
		&s3.GetObjectInput{Bucket: &s.bucket, Key: &key, ExpectedBucketOwner: s.owner})
	if _, missing := errors.AsType[*types.NoSuchKey](err); missing {
		return nil, offload.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	defer out.Body.Close()
	// Some implementations do not send a length.
	if n := aws.ToInt64(out.ContentLength); n > int64(most) {
		return nil, fmt.Errorf("%w: %d bytes, %d are allowed", offload.ErrTooLarge, n, most)
	}
	body, err := io.ReadAll(io.LimitReader(out.Body, int64(most)+1))
	if err == nil && len(body) > most {
		err = fmt.Errorf("%w: %d are allowed", offload.ErrTooLarge, most)
	}
	if err != nil {
		return nil, err
	}
	return body, nil
}

// Delete removes an object.
func (s *Store) Delete(ctx context.Context, key string) error {
	_, err := s.client.DeleteObject(ctx,
		&s3.DeleteObjectInput{Bucket: &s.bucket, Key: &key, ExpectedBucketOwner: s.owner})
	return err
}
