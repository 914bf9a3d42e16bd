package offload_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/offload"
	"tenaq/offload/offloadtest"
)

type attributes = map[string]types.MessageAttributeValue

func text(s string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &s}
}

func number(n int) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("Number"), StringValue: aws.String(fmt.Sprint(n))}
}

func offloader(t *testing.T, cfg offload.Config) *offload.Offloader {
	t.Helper()
	o, err := offload.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// keyOf takes the pointer apart without the package's own parser.
func keyOf(t *testing.T, body string) (bucket, key string) {
	t.Helper()
	var parts []json.RawMessage
	var p struct{ S3BucketName, S3Key string }
	if err := json.Unmarshal([]byte(body), &parts); err != nil || len(parts) != 2 {
		t.Fatalf("%q is no pointer: %v", body, err)
	}
	if err := json.Unmarshal(parts[1], &p); err != nil {
		t.Fatal(err)
	}
	return p.S3BucketName, p.S3Key
}

func TestOutAndIn(t *testing.T) {
	store := offloadtest.NewMemory("bodies")
	o := offloader(t, offload.Config{Store: store, Prefix: "work/", Threshold: 1000})
	before := attributes{"colour": text("blue")}
	for _, body := range []string{strings.Repeat("x", 1000), strings.Repeat("\x00\xff<>&", 500), strings.Repeat("ä", 600)} {
		out, with, err := o.Out(t.Context(), "order 17", body, before)
		if err != nil {
			t.Fatal(err)
		}
		bucket, key := keyOf(t, out)
		if bucket != "bodies" || !strings.HasPrefix(key, "work/order 17.") || !offload.IsPointer(with) {
			t.Errorf("the pointer is %s", out)
		}
		if want := (attributes{"colour": text("blue"), "ExtendedPayloadSize": number(len(body))}); !reflect.DeepEqual(with, want) {
			t.Errorf("got the attributes %v, want %v", with, want)
		}
		in, without, err := o.In(t.Context(), out, with)
		if err != nil || in != body || !reflect.DeepEqual(without, before) {
			t.Errorf("got %d bytes of %d, attributes %v, error %v", len(in), len(body), without, err)
		}
		if !offload.IsPointer(with) || len(before) != 1 {
			t.Error("attributes were changed in place")
		}
	}
}

// The attribute decides, as with the other libraries: a body that only looks like a pointer is a
// body, with either attribute it is one, and both go away.
func TestAttributeDecides(t *testing.T) {
	store := offloadtest.NewMemory("b")
	o := offloader(t, offload.Config{Store: store})
	if err := store.Put(t.Context(), "k", []byte("real")); err != nil {
		t.Fatal(err)
	}
	pointer := `["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"b","s3Key":"k"}]`
	for _, row := range []struct {
		with attributes
		want string
	}{
		{nil, pointer},
		{attributes{"S3Key": text("k")}, pointer},
		{attributes{"ExtendedPayloadSize": number(4)}, "real"},
		{attributes{"SQSLargePayloadSize": number(4)}, "real"},
		{attributes{"ExtendedPayloadSize": number(4), "SQSLargePayloadSize": number(4)}, "real"},
		{attributes{"ExtendedPayloadSize": text("whatever")}, "real"},
	} {
		got, without, err := o.In(t.Context(), pointer, row.with)
		if err != nil || got != row.want || offload.IsPointer(without) {
			t.Errorf("with %v: got %q with %v, error %v, want %q", names(row.with), got, names(without), err, row.want)
		}
	}
}

func names(a attributes) []string { return slices.Sorted(maps.Keys(a)) }

// The threshold counts what SQS counts.
func TestThreshold(t *testing.T) {
	with := attributes{"ä": text("12345678"), "b": {DataType: aws.String("Binary"), BinaryValue: []byte("12345")}} // 2+6+8, 1+6+5
	for _, row := range []struct {
		threshold, body int
		out             bool
	}{
		{1028, 1000, false}, {1028, 1001, true},
		{0, 240<<10 - 28, false}, {0, 240<<10 - 27, true},
		{1 << 20, 1<<20 - 28, false}, {1 << 20, 1<<20 - 27, true},
		{1, 100, false}, // a pointer is longer
		{1, 300, true},
		{-1, 1, true},
		{-1, 0, false}, // SQS takes no empty body, wherever it is
	} {
		store := offloadtest.NewMemory("bodies")
		o := offloader(t, offload.Config{Store: store, Threshold: row.threshold})
		body, got, err := o.Out(t.Context(), "k", strings.Repeat("x", row.body), with)
		if err != nil || offload.IsPointer(got) != row.out || (len(body) == row.body) == row.out {
			t.Errorf("threshold %d, body %d: %d bytes, pointer %v, error %v", row.threshold, row.body, len(body), offload.IsPointer(got), err)
		}
		if stored := store.Len() == 1; stored != row.out {
			t.Errorf("threshold %d, body %d: stored %v", row.threshold, row.body, stored)
		}
	}
}

// The same work sent again is stored once. Another body of the same work is kept beside the first,
// whose message keeps its body.
func TestKeys(t *testing.T) {
	store := offloadtest.NewMemory("bodies")
	o := offloader(t, offload.Config{Store: store, Threshold: -1})
	first, with, err := o.Out(t.Context(), "k", "first", nil)
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := o.Out(t.Context(), "k", "first", nil)
	if err != nil || again != first || store.Len() != 1 {
		t.Errorf("%s and then %s, %d bodies, error %v", first, again, store.Len(), err)
	}
	if _, _, err := o.Out(t.Context(), "k", "second", nil); err != nil {
		t.Fatal(err)
	}
	if got, _, err := o.In(t.Context(), first, with); err != nil || got != "first" {
		t.Errorf("the first message now says %q, error %v", got, err)
	}
	one, _, err1 := o.Out(t.Context(), "", "x", nil)
	two, _, err2 := o.Out(t.Context(), "", "x", nil)
	if one == two || err1 != nil || err2 != nil {
		t.Errorf("without a key: %s and %s, errors %v and %v", one, two, err1, err2)
	}
}

func TestOutRefuses(t *testing.T) {
	full := make(attributes)
	for i := range 10 {
		full[fmt.Sprint("a", i)] = text("x")
	}
	nine := maps.Clone(full)
	delete(nine, "a0")
	large := strings.Repeat("x", 300<<10)
	for _, row := range []struct {
		name, key, body string
		with            attributes
		want            string // in the error; none when empty
	}{
		{"nine attributes", "k", large, nine, ""},
		{"ten attributes", "k", large, full, "needs one of the 10 that SQS allows"},
		{"ten attributes, small", "k", "x", full, ""},
		{"reserved", "k", "x", attributes{offload.Attribute: number(1)}, "ExtendedPayloadSize"},
		{"reserved, legacy", "k", "x", attributes{offload.LegacyAttribute: number(1)}, "SQSLargePayloadSize"},
		{"large attributes", "k", large, attributes{"a": text(strings.Repeat("x", 1<<20))}, "its attributes alone have 1048583 bytes"},
		{"too large", "k", strings.Repeat("x", 400<<10), nil, "raise BodyMax"},
		{"long key", strings.Repeat("k", 1000), large, nil, "use a hash of it"},
		{"key that climbs", "../k", large, nil, `".."`},
		{"key with a line end", "a\nb", large, nil, "control character"},
	} {
		store := offloadtest.NewMemory("bodies")
		o := offloader(t, offload.Config{Store: store, BodyMax: 350 << 10})
		_, _, err := o.Out(t.Context(), row.key, row.body, row.with)
		if (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got error %v, want %q", row.name, err, row.want)
		}
		if err != nil && store.Len() > 0 {
			t.Errorf("%s: refused, and stored", row.name)
		}
	}
}

// No pointer is returned when the body is not in the store.
func TestStoreFails(t *testing.T) {
	store := offloadtest.NewMemory("bodies")
	o := offloader(t, offload.Config{Store: store, Threshold: -1})
	pointer, with, err := o.Out(t.Context(), "k", "body", nil)
	if err != nil {
		t.Fatal(err)
	}
	away := errors.New("no route to host")
	store.SetFault(func(context.Context, string, string) error { return away })
	if body, got, err := o.Out(t.Context(), "k", "body", nil); !errors.Is(err, away) || body != "" || got != nil {
		t.Errorf("out: %q, %v, error %v", body, got, err)
	}
	body, got, err := o.In(t.Context(), pointer, with)
	if !errors.Is(err, away) || body != pointer || !offload.IsPointer(got) {
		t.Errorf("in: %q, %v, error %v", body, got, err)
	}
	for _, final := range []error{offload.ErrNotFound, offload.ErrPointer, offload.ErrTooLarge} {
		if errors.Is(err, final) {
			t.Errorf("in: %v is said to be final", err)
		}
	}
	if err := o.Delete(t.Context(), pointer, with); !errors.Is(err, away) {
		t.Errorf("delete: error %v", err)
	}
}

// A message is not trusted: its pointer leads into the stores of the configuration, under the
// prefix, and to no more than fits, or nowhere. Nothing else is asked for, whether to fetch it or
// to delete it.
func TestPointerLeadsNowhereElse(t *testing.T) {
	at := func(bucket, key string) string {
		return fmt.Sprintf(`["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":%q,"s3Key":%q}]`, bucket, key)
	}
	for _, row := range []struct {
		name, body string
		want       error // nil when it is followed
	}{
		{"own", at("own", "work/k"), nil},
		{"read", at("read", "work/k"), nil},
		{"other bucket", at("other", "work/k"), offload.ErrPointer},
		{"address", at("169.254.169.254/latest", "work/k"), offload.ErrPointer},
		{"ARN", at("arn:aws:s3:us-east-1:123456789012:accesspoint/x", "work/k"), offload.ErrPointer},
		{"case of the bucket", at("OWN", "work/k"), offload.ErrPointer},
		{"other prefix", at("own", "secret/k"), offload.ErrPointer},
		{"out of the prefix", at("own", "work/../secret/k"), offload.ErrPointer},
		{"no pointer", "hello", offload.ErrPointer},
		{"missing", at("own", "work/none"), offload.ErrNotFound},
		{"large", at("own", "work/large"), offload.ErrTooLarge},
	} {
		own, read := offloadtest.NewMemory("own"), offloadtest.NewMemory("read")
		for _, s := range []*offloadtest.Memory{own, read} {
			for key, body := range map[string]string{"work/k": "body", "secret/k": "secret", "work/large": "12345678901"} {
				if err := s.Put(t.Context(), key, []byte(body)); err != nil {
					t.Fatal(err)
				}
			}
		}
		o := offloader(t, offload.Config{Store: own, Read: []offload.Store{read}, Prefix: "work/", BodyMax: 10})
		with := attributes{offload.Attribute: number(4)}
		body, _, err := o.In(t.Context(), row.body, with)
		if !errors.Is(err, row.want) || (body == "body") != (row.want == nil) {
			t.Errorf("%s: got %q, error %v, want %v", row.name, body, err, row.want)
		}
		err = o.Delete(t.Context(), row.body, with)
		if refused := row.want == offload.ErrPointer; errors.Is(err, offload.ErrPointer) != refused {
			t.Errorf("%s: delete said %v", row.name, err)
		} else if n := own.Calls("get") + read.Calls("get") + own.Calls("delete") + read.Calls("delete"); refused && n > 0 {
			t.Errorf("%s: refused, and asked for %d times", row.name, n)
		}
	}
}

// Bodies are written to one store only, and bodies without a pointer are not deleted.
func TestDelete(t *testing.T) {
	store := offloadtest.NewMemory("bodies")
	o := offloader(t, offload.Config{Store: store, Threshold: -1})
	pointer, with, err := o.Out(t.Context(), "k", "body", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Delete(t.Context(), pointer, nil); err != nil || store.Len() != 1 {
		t.Errorf("without the attribute: %d bodies left, error %v", store.Len(), err)
	}
	for range 2 {
		if err := o.Delete(t.Context(), pointer, with); err != nil || store.Len() != 0 {
			t.Errorf("%d bodies left, error %v", store.Len(), err)
		}
	}
}

func TestNew(t *testing.T) {
	store := offloadtest.NewMemory("bodies")
	for _, row := range []struct {
		cfg  offload.Config
		want string
	}{
		{offload.Config{}, "Store is missing"},
		{offload.Config{Store: store, Threshold: 1<<20 + 1}, "Threshold is 1048577"},
		{offload.Config{Store: store, BodyMax: -1}, "BodyMax is -1"},
		{offload.Config{Store: store, Prefix: "../"}, "Prefix"},
		{offload.Config{Store: store, Read: []offload.Store{offloadtest.NewMemory("bodies")}}, `two stores are named "bodies"`},
		{offload.Config{Store: offloadtest.NewMemory("")}, "bucket"},
	} {
		if _, err := offload.New(row.cfg); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("got error %v, want %q", err, row.want)
		}
	}
}
