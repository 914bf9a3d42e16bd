package dynamorecords

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"tenaq/records"
)

type attributes = map[string]types.AttributeValue

// An item is a record in the table, or the remains of one:
//
//	Key      S  the key of the table
//	Value    B  absent in a tombstone
//	Version  N  time of the write in microseconds, or more
//	Expires  N  microseconds; zero for a tombstone, absent if it never expires
//	TTL      N  seconds, from when DynamoDB may remove it; absent without Expires
//	Nonce    B  16 random bytes that identify the write
//	DueShard S  partition of the index of due records; absent without Write.Due
//	DueAt    S  Write.Due in UTC, such as 2006-01-02T15:04:05.000Z; absent without
//
// Each label is an attribute of its own, S, under its name. A tombstone has none and is never due.
type item struct {
	key     string
	value   []byte
	version records.Version
	mortal  bool            // it expires
	expires records.Version // zero if it was deleted
	nonce   []byte
	labels  map[string]string // written, and not read
	due     string            // DueAt

	// removed is when a tombstone was written. It is not stored.
	removed records.Version
}

// keep is how long an item outlives its record and the time in its version. So a later record of
// the key has a larger version, even if it is written by a clock that is up to a day behind.
const keep = 24 * time.Hour

func (it *item) tombstone() bool { return it.mortal && it.expires == 0 }

// live reports whether there is a record at a time, in microseconds.
func (it *item) live(now records.Version) bool {
	return it.version != 0 && (!it.mortal || it.expires > now)
}

// record returns the record at a time at which the item is live.
func (it *item) record(now records.Version) records.Record {
	r := records.Record{Key: it.key, Value: it.value, Version: it.version, Age: records.AgeUnknown}
	if it.mortal {
		r.TTL = saturate(it.expires - now)
	}
	return r
}

func (it *item) encode() attributes {
	attrs := attributes{
		"Key":     text(it.key),
		"Version": number(it.version),
		"Nonce":   &types.AttributeValueMemberB{Value: it.nonce},
	}
	if it.mortal {
		attrs["Expires"] = number(it.expires)
		last := time.UnixMicro(int64(max(it.expires, it.version, it.removed)))
		attrs["TTL"] = &types.AttributeValueMemberN{Value: strconv.FormatInt(last.Add(keep).Unix()+
			1, 10)}
	}
	if !it.tombstone() {
		value := it.value
		if value == nil {
			value = []byte{} // nil would be left out
		}
		attrs["Value"] = &types.AttributeValueMemberB{Value: value}
		for name, value := range it.labels {
			if value != "" {
				attrs[name] = text(value)
			}
		}
		if it.due != "" {
			attrs[shardName], attrs[dueName] = text(shardOf(it.key)), text(it.due)
		}
	}
	return attrs
}

// decode reads an item. Without attributes, it returns the zero value.
func decode(attrs attributes) (it item, err error) {
	if len(attrs) == 0 {
		return item{}, nil
	}
	key, isText := attrs["Key"].(*types.AttributeValueMemberS)
	if !isText {
		return item{}, errors.New("an item has no Key: is this a table of records?")
	}
	it.key = key.Value
	if b, ok := attrs["Value"].(*types.AttributeValueMemberB); ok {
		it.value = b.Value
	}
	if b, ok := attrs["Nonce"].(*types.AttributeValueMemberB); ok {
		it.nonce = b.Value
	}
	if due, ok := attrs[dueName].(*types.AttributeValueMemberS); ok {
		it.due = due.Value
	}
	if it.version, err = decodeNumber(attrs, "Version"); err != nil || it.version == 0 {
		return item{}, fmt.Errorf("item %q has no Version: is this a table of records?", it.key)
	}
	if _, it.mortal = attrs["Expires"]; it.mortal {
		if it.expires, err = decodeNumber(attrs, "Expires"); err != nil {
			return item{}, fmt.Errorf("item %q: %w", it.key, err)
		}
	}
	return it, nil
}

func decodeNumber(attrs attributes, name string) (records.Version, error) {
	n, ok := attrs[name].(*types.AttributeValueMemberN)
	if !ok {
		return 0, fmt.Errorf("the attribute %s is not a number", name)
	}
	v, err := strconv.ParseUint(n.Value, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the attribute %s: %w", name, err)
	}
	return records.Version(v), nil
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(v records.Version) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatUint(uint64(v), 10)}
}

// micros returns a time in the unit of versions.
func micros(t time.Time) records.Version { return records.Version(max(1, t.UnixMicro())) }

// expiry returns when a record that is written now expires, rounded up.
func expiry(now time.Time, ttl time.Duration) records.Version {
	return micros(now) + records.Version((ttl-1)/time.Microsecond) + 1
}

// saturate converts microseconds to a duration, at most the longest one.
func saturate(us records.Version) time.Duration {
	const most = records.Version((1<<63 - 1) / int64(time.Microsecond))
	return time.Duration(min(us, most)) * time.Microsecond
}
