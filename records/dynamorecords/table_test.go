package dynamorecords

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"tenaq/records"
)

func TestCreateTable(t *testing.T) {
	s := open(t, "created")
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := s.CreateTable(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	out, err := s.client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &s.table})
	if err != nil || aws.ToString(out.TimeToLiveDescription.AttributeName) != "TTL" {
		t.Errorf("time to live %+v, %v", out, err)
	}
	if schema := Schema(s.table); !strings.Contains(schema, `TableName: "created"`) {
		t.Errorf("schema %s", schema)
	}

	other := open(t, fmt.Sprintf("others%d", tables.Add(1)))
	_, err = other.client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:            &other.table,
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("Key"), AttributeType: types.ScalarAttributeTypeN}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("Key"), KeyType: types.KeyTypeHash}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.CreateTable(t.Context()); err == nil || !strings.Contains(err.Error(), "choose another name") {
		t.Errorf("a table of another program: %v", err)
	}
}

// DynamoDB is never told to remove an item before a day has passed since it expired, was deleted
// and, by its version, was written; and a record that stays is not to be removed at all.
func TestTTL(t *testing.T) {
	s := open(t, newTable(t))
	put := func(key string, ttl time.Duration) records.Version {
		t.Helper()
		r, err := s.Put(t.Context(), records.Write{Key: key, Value: []byte("v"), TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		return r.Version
	}
	now := time.Now()
	s.now = func() time.Time { return now }
	put("stays", 0)
	put("short", time.Nanosecond)
	put("hour", time.Hour)
	deleted := put("deleted", 0)
	s.now = func() time.Time { return now.Add(time.Hour) }
	if err := s.Delete(t.Context(), "deleted", deleted); err != nil {
		t.Fatal(err)
	}
	behind := put("behind", 0)
	s.now = func() time.Time { return now }
	if err := s.Delete(t.Context(), "behind", behind); err != nil {
		t.Fatal(err)
	}
	for key, after := range map[string]time.Duration{"stays": 0, "short": keep, "hour": time.Hour + keep, "deleted": time.Hour + keep, "behind": time.Hour + keep} {
		out, err := s.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &s.table, Key: attributes{"Key": text(key)}})
		if err != nil {
			t.Fatal(err)
		}
		ttl, ok := out.Item["TTL"].(*types.AttributeValueMemberN)
		if after == 0 {
			if ok {
				t.Errorf("%s is to be removed at %s", key, ttl.Value)
			}
			continue
		}
		if !ok {
			t.Errorf("%s is not to be removed", key)
			continue
		}
		seconds, _ := strconv.ParseInt(ttl.Value, 10, 64)
		if d := time.Unix(seconds, 0).Sub(now.Add(after)); d < 0 || d > 2*time.Second {
			t.Errorf("%s is to be removed %v after it may be", key, d)
		}
		if _, ok := out.Item["Value"]; ok && (key == "deleted" || key == "behind") {
			t.Errorf("%s kept its value", key)
		}
	}
}

// Records of a key whose last version was ahead of our clock are created, and behind what DynamoDB
// has removed nothing is in the way.
func TestRemoved(t *testing.T) {
	s := open(t, newTable(t))
	r, err := s.Put(t.Context(), records.Write{Key: "a", TTL: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Millisecond)
	if _, err := s.client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &s.table, Key: attributes{"Key": text("a")}}); err != nil {
		t.Fatal(err)
	}
	again, err := s.Put(t.Context(), records.Write{Key: "a"})
	if err != nil || again.Version <= r.Version {
		t.Errorf("version %d after %d, %v", again.Version, r.Version, err)
	}
}
