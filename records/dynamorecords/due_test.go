package dynamorecords

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"tenaq/records"
)

// Without the index, ListDue says so; records are written as before, and an index that is added
// later finds them.
func TestCreateIndex(t *testing.T) {
	s := open(t, fmt.Sprintf("test%d", tables.Add(1)))
	if err := s.CreateTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	due := time.Now().Add(-time.Minute)
	if _, err := s.Put(t.Context(), records.Write{Key: "a", Value: []byte("v"), Due: due}); err != nil {
		t.Fatal(err)
	}
	if list, err := s.ListDue(t.Context(), "", time.Now(), 0); !errors.Is(err, records.ErrNoIndex) {
		t.Fatalf("without an index there are %v, %v; want ErrNoIndex", list, err)
	}
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if err := s.CreateIndex(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if list, err := s.ListDue(t.Context(), "", time.Now(), 0); err != nil || len(list) != 1 || list[0].Key != "a" || string(list[0].Value) != "v" {
		t.Errorf("due are %v, %v", list, err)
	}
	if err := s.CreateTable(t.Context()); err != nil {
		t.Errorf("a table with an index is refused: %v", err)
	}
}

// The template with the index is the one without, with the comment signs taken away.
func TestSchema(t *testing.T) {
	plain, indexed := Schema("records"), SchemaWithIndex("records")
	var lines []string
	for line := range strings.Lines(plain) {
		switch rest, comment := strings.CutPrefix(line, "# "); {
		case comment && strings.HasPrefix(rest, " "):
			lines = append(lines, rest)
		case !comment:
			lines = append(lines, line)
		}
	}
	if got := strings.Join(lines, ""); got != indexed {
		t.Errorf("without its comment signs the template is\n%s\nwant\n%s", got, indexed)
	}
	if !strings.Contains(indexed, `TableName: "records"`) || !strings.Contains(indexed, "IndexName: Due") || strings.ContainsAny(indexed, "#{}") {
		t.Errorf("the template is\n%s", indexed)
	}
}

// Items without labels, from an earlier version, are read and replaced.
func TestItemsOfBefore(t *testing.T) {
	s := open(t, newTable(t))
	now := micros(time.Now())
	_, err := s.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &s.table, Item: attributes{
		"Key": text("old"), "Version": number(now), "Value": &types.AttributeValueMemberB{Value: []byte("v")},
		"Nonce": &types.AttributeValueMemberB{Value: make([]byte, 16)}, "Expires": number(now + 3_600_000_000), "TTL": number(now/1_000_000 + 90_000),
	}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Get(t.Context(), "old")
	if err != nil || string(r.Value) != "v" || r.Version != now {
		t.Fatalf("the record is %+v, %v", r, err)
	}
	if _, err := s.Put(t.Context(), records.Write{Key: "old", If: r.Version, Value: []byte("w"), Labels: map[string]string{"State": "held"}}); err != nil {
		t.Fatal(err)
	}
	if got := labelsOf(t, s, "old"); got["State"] != "held" {
		t.Errorf("its labels are %q", got)
	}
}
