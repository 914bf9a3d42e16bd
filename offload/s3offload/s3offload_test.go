package s3offload_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/testing/mototest"
	"tenaq/offload"
	"tenaq/offload/offloadtest"
	"tenaq/offload/s3offload"
)

func client(t testing.TB) *s3.Client {
	t.Helper()
	return s3.New(s3.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(mototest.URL(t)),
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		UsePathStyle: true,
	})
}

var buckets atomic.Int64

// newBucket makes a bucket and returns its name.
func newBucket(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("bodies%d", buckets.Add(1))
	if _, err := client(t).CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	return name
}

func open(t testing.TB, c s3offload.S3, bucket string) *s3offload.Store {
	t.Helper()
	s, err := s3offload.New(s3offload.Config{Client: c, Bucket: bucket})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// An error names the missing field.
func TestConfig(t *testing.T) {
	for want, cfg := range map[string]s3offload.Config{"Config.Client": {Bucket: "b"}, "Config.Bucket": {Client: new(asking)}} {
		if _, err := s3offload.New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}

func TestContract(t *testing.T) {
	offloadtest.Run(t, func(t *testing.T) func() offload.Store {
		bucket := newBucket(t)
		return func() offload.Store { return open(t, client(t), bucket) }
	})
}

// A missing bucket is not a missing body: it is a mistake in the configuration, which an operator
// will correct.
func TestNoBucket(t *testing.T) {
	s := open(t, client(t), "nobodys-bucket")
	_, err := s.Get(t.Context(), "a", 1)
	if err == nil || errors.Is(err, offload.ErrNotFound) {
		t.Errorf("got error %v, want one that says nothing about the body", err)
	}
}

// The owner goes with every request.
func TestOwner(t *testing.T) {
	var asked asking
	s, err := s3offload.New(s3offload.Config{Client: &asked, Bucket: "b", Owner: "123456789012"})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Put(t.Context(), "a", nil)
	_, _ = s.Get(t.Context(), "a", 1)
	_ = s.Delete(t.Context(), "a")
	if got, want := fmt.Sprint(asked), "[put 123456789012 get 123456789012 delete 123456789012]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// An asking notes the owners that it is asked with, and refuses all.
type asking []string

var errAsked = errors.New("asked")

func (a *asking) PutObject(_ context.Context, in *s3.PutObjectInput, _ ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	*a = append(*a, "put "+aws.ToString(in.ExpectedBucketOwner))
	return nil, errAsked
}

func (a *asking) GetObject(_ context.Context, in *s3.GetObjectInput, _ ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	*a = append(*a, "get "+aws.ToString(in.ExpectedBucketOwner))
	return nil, errAsked
}

func (a *asking) DeleteObject(_ context.Context, in *s3.DeleteObjectInput, _ ...func(*s3.Options)) (*s3.DeleteObjectOutput, error) {
	*a = append(*a, "delete "+aws.ToString(in.ExpectedBucketOwner))
	return nil, errAsked
}

// A bucket is shared with the other libraries: a body that one of them stored under its own key is
// found by its pointer, and a body stored here lies where the pointer says.
func TestSharedBucket(t *testing.T) {
	bucket := newBucket(t)
	o, err := offload.New(offload.Config{Store: open(t, client(t), bucket), Threshold: 10})
	if err != nil {
		t.Fatal(err)
	}
	theirs := "cc562f4d-c6f3-4b0c-bf29-007a902c391f"
	_, err = client(t).PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &theirs, Body: strings.NewReader("grüße")})
	if err != nil {
		t.Fatal(err)
	}
	body, attributes, err := o.In(t.Context(),
		`["software.amazon.payloadoffloading.PayloadS3Pointer", {"s3BucketName": "`+bucket+`", "s3Key": "`+theirs+`"}]`, size(7))
	if err != nil || body != "grüße" || len(attributes) != 0 {
		t.Errorf("got %q with %d attributes, error %v", body, len(attributes), err)
	}

	long := strings.Repeat("x", 300)
	pointer, _, err := o.Out(t.Context(), "k", long, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client(t).ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &bucket, Prefix: aws.String("k.")})
	if err != nil || len(list.Contents) != 1 || !strings.Contains(pointer, `"`+aws.ToString(list.Contents[0].Key)+`"`) ||
		aws.ToInt64(list.Contents[0].Size) != 300 {
		t.Errorf("the pointer is %s, the bucket holds %+v, error %v", pointer, list.Contents, err)
	}
}

// size is the attribute of a pointer.
func size(n int) map[string]types.MessageAttributeValue {
	return map[string]types.MessageAttributeValue{
		offload.Attribute: {DataType: aws.String("Number"), StringValue: aws.String(fmt.Sprint(n))},
	}
}
