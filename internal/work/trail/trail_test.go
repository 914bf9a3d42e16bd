package trail

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/work/sqslimits"
	"tenaq/records/recordstest"
)

func TestRoundTrip(t *testing.T) {
	for _, want := range []Trail{
		{},
		{Key: "accounts-2026-02-28"},
		{Key: "0", Lineage: "0"},
		{
			Key: "a&b=c #1%", Generation: 3, Lineage: "m1", Redrives: 5, Strikes: 2, Poison: true, FirstSent: time.UnixMilli(1_700_000_000_123).UTC(),
			Died:   time.UnixMilli(1_700_000_100_456).UTC(),
			Reason: "exit 1: \x00 ends\nhere", Attempts: 3, Source: "arn:aws:sqs:us-east-1:000000000000:orders",
		},
	} {
		with, ok := want.Attach(nil)
		if !ok {
			t.Fatal("no room in an empty message")
		}
		got, err := Of(with)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v (error %v), want %+v", want, got, err, want)
		}
	}
}

// Fields of a later version survive when an older program sends the message again.
func TestUnknownFieldsStay(t *testing.T) {
	got, err := parse("v=1&colour=blue&key=k&redrives=1")
	if err != nil {
		t.Fatal(err)
	}
	got.Redrives++
	if s, want := got.String(), "v=1&colour=blue&key=k&redrives=2"; s != want {
		t.Errorf("got %s, want %s", s, want)
	}
}

func TestUnreadable(t *testing.T) {
	for _, s := range []string{
		"", "v=2&key=k", "key=k", "v=1&redrives=x", "v=1&generation=-1", "v=1;key=k", "v=1&key=%zz",
		"v=1&key=" + strings.Repeat("k", KeyMax+1),
	} {
		got, err := Of(map[string]types.MessageAttributeValue{Attribute: {DataType: aws.String("String"), StringValue: &s}})
		if err == nil {
			t.Errorf("%q was read as %+v", s, got)
		}
	}
}

func TestRoom(t *testing.T) {
	full := make(map[string]types.MessageAttributeValue)
	for _, name := range strings.Split("a b c d e f g h i j", " ") {
		full[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String("x")}
	}
	if with, ok := (Trail{Key: "k"}).Attach(full); ok || len(with) != sqslimits.AttributesMax {
		t.Errorf("attached to %d attributes: %v", len(with), ok)
	}
	delete(full, "a")
	with, ok := Trail{Key: "k"}.Attach(full)
	if !ok || len(with) != sqslimits.AttributesMax || len(full) != sqslimits.AttributesMax-1 {
		t.Errorf("attached to the tenth place: %v, %d attributes, and %d in the original", ok, len(with), len(full))
	}
	if with, ok = (Trail{Key: "other"}).Attach(with); !ok {
		t.Error("no room for a trail in place of another")
	}
	if got, err := Of(with); err != nil || got.Key != "other" {
		t.Errorf("got %+v, error %v", got, err)
	}
}

func TestAside(t *testing.T) {
	store := recordstest.NewMemory()
	for _, want := range []Trail{{Key: "k"}, {Key: "k", Redrives: 1}, {Key: "k", Redrives: 1}} {
		if err := want.PutAside(t.Context(), store, "m1"); err != nil {
			t.Fatal(err)
		}
		if got, err := Aside(t.Context(), store, "m1"); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, error %v, want %+v", got, err, want)
		}
	}
	if got, err := Aside(t.Context(), store, "m2"); err != nil || !got.IsZero() {
		t.Errorf("of another message: %+v, error %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("v=1&key=k&generation=2&lineage=m&redrives=1&first-sent=1&reason=r&attempts=3&source=s&x=y")
	f.Fuzz(func(t *testing.T, s string) {
		first, err := parse(s)
		if err != nil {
			return
		}
		again, err := parse(first.String())
		if err != nil || again.String() != first.String() {
			t.Errorf("%q became %q and then %q (error %v)", s, first, again, err)
		}
	})
}
