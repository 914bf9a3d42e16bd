package redrive_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/testing/sqstest"
	"tenaq/internal/work/trail"
	"tenaq/records/sqliterecords"
	"tenaq/redrive"
)

// After the shipper was fixed, the messages that it had refused go back to work.
func ExampleParkingLot() {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		log.Fatal(err)
	}
	store, err := sqliterecords.New(sqliterecords.Config{Path: "records.db"}) // that of the redrivers
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	lot, err := redrive.NewParkingLot(redrive.ParkingLotConfig{
		Client: sqs.NewFromConfig(cfg), Store: store, URL: "http://127.0.0.1:9324/000000000000/orders-parking",
	})
	if err != nil {
		log.Fatal(err)
	}
	parked, err := lot.List(ctx, 100)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range parked {
		if p.Kind != redrive.FingerprintOf("the shipper answers 503") {
			continue
		}
		if err := lot.Release(ctx, p, ""); err != nil {
			log.Print(err)
		}
	}
	if err := lot.GiveBack(ctx, parked); err != nil { // the others
		log.Print(err)
	}
}

// At most ten messages of a group can be seen at once, and they are given back in their order.
func TestParkedListFIFO(t *testing.T) {
	inBubble(t, ".fifo", func(t *testing.T, r *rig) {
		for i := range 15 {
			r.park(fmt.Sprintf("m%02d", i), r.workTrail(), nil)
		}
		for range 2 {
			all := r.list()
			if len(all) != 10 || all[0].Body != "m00" || all[9].Body != "m09" {
				t.Errorf("%d are listed, want the first ten", len(all))
			}
		}
	})
}

func (r *rig) lot() *redrive.ParkingLot {
	r.t.Helper()
	cfg := redrive.ParkingLotConfig{Client: r.client, Store: r.store, URL: r.parked}
	if r.amazon {
		cfg.Client = amazon{r.client}
	}
	lot, err := redrive.NewParkingLot(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return lot
}

// park puts a message into the parking lot, as a redriver does.
func (r *rig) park(body string, t trail.Trail, attributes map[string]types.MessageAttributeValue) {
	r.t.Helper()
	with, ok := t.Attach(attributes)
	in := &sqs.SendMessageInput{QueueUrl: &r.parked, MessageBody: &body, MessageAttributes: with}
	if strings.HasSuffix(r.parked, ".fifo") {
		in.MessageGroupId, in.MessageDeduplicationId = aws.String("g"), &body
	}
	out, err := r.server.Client().SendMessage(r.t.Context(), in)
	if err == nil && !ok {
		err = t.PutAside(r.t.Context(), r.store, aws.ToString(out.MessageId))
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// list looks into the parking lot and gives everything back.
func (r *rig) list() []*redrive.Parked {
	r.t.Helper()
	lot := r.lot()
	all, err := lot.List(r.t.Context(), 100)
	if err == nil {
		err = lot.GiveBack(r.t.Context(), all)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b *redrive.Parked) int { return strings.Compare(a.Body, b.Body) })
	return all
}

// workTrail is the trail of a message that was parked.
func (r *rig) workTrail() trail.Trail {
	return trail.Trail{
		Key: "order-17", Generation: 2, Lineage: "m0", Redrives: 4, Strikes: 3, Poison: true, Attempts: 2,
		FirstSent: time.UnixMilli(1_700_000_000_123).UTC(), Source: sqstest.ARN(r.work[strings.LastIndexByte(r.work, '/')+1:]),
		Reason: "failed 3 times while others succeeded: no customer 7",
	}
}

// A list shows everything known about each parked message, and leaves the messages where others can
// see them.
func TestParkedList(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		for i := range 23 {
			r.park(fmt.Sprintf("m%02d", i), r.workTrail(), nil)
		}
		for range 2 {
			all := r.list()
			if len(all) != 23 {
				t.Fatalf("%d are listed, want 23", len(all))
			}
			got := *all[7]
			if got.Body != "m07" || got.Key != "order-17#2" || got.Lineage != "m0" || got.Attempts != 2 || got.Redrives != 4 || got.Strikes != 3 ||
				got.Why != "failed 3 times while others succeeded" || got.Reason != "no customer 7" || got.Kind != redrive.FingerprintOf("no customer 8") ||
				got.Source != sqstest.ARN("work") || got.FirstSent.UnixMilli() != 1_700_000_000_123 || got.Since.IsZero() {
				t.Errorf("got %+v", got)
			}
		}
		all, err := r.lot().List(t.Context(), 5)
		if err != nil || len(all) != 5 {
			t.Errorf("%d are listed, error %v, want 5", len(all), err)
		}
		if n := len(r.list()); n != 18 {
			t.Errorf("%d are listed while five are in other hands, want 18", n)
		}
		time.Sleep(redrive.ParkedLook)
		r.wantCounts(0, 0, 23)
		if n := len(r.list()); n != 23 {
			t.Errorf("%d are listed later, want 23", n)
		}
	})
}

// A released message is the same work, starts from its first attempt, and has lost nothing. On a
// tenaq server, it moves in one step. [NACK-21]
func TestParkedRelease(t *testing.T) {
	for i, suffix := range []string{"", ".fifo", "", ".fifo"} {
		inBubble(t, suffix, func(t *testing.T, r *rig) {
			r.amazon = i < 2
			r.park("a", r.workTrail(), map[string]types.MessageAttributeValue{
				"colour": {DataType: aws.String("String"), StringValue: aws.String("blue")},
			})
			lot := r.lot()
			all, err := lot.List(t.Context(), 10)
			if err != nil || len(all) != 1 {
				t.Fatalf("got %v, error %v", all, err)
			}
			if err := lot.Release(t.Context(), all[0], ""); err != nil {
				t.Fatal(err)
			}
			if err := lot.Release(t.Context(), all[0], ""); err == nil {
				t.Error("it was released a second time")
			}
			if err := lot.GiveBack(t.Context(), all); err != nil {
				t.Error(err)
			}
			r.wantCounts(1, 0, 0)
			m := r.look(r.work)[0]
			got, err := trail.Of(m.MessageAttributes)
			want := r.workTrail()
			want.Strikes, want.Poison, want.Redrives, want.Reason = 0, false, 5, "no customer 7"
			if err != nil || got.String() != want.String() {
				t.Errorf("got the trail %s, error %v, want %s", got, err, want)
			}
			if aws.ToString(m.MessageAttributes["colour"].StringValue) != "blue" || aws.ToString(m.Body) != "a" {
				t.Errorf("got %+v", m)
			}
			dedup := map[bool]string{true: all[0].ID, false: "a"}[r.amazon]
			if suffix != "" && (m.Attributes["MessageGroupId"] != "g" || m.Attributes["MessageDeduplicationId"] != dedup) {
				t.Errorf("got %v", m.Attributes)
			}
			if n := r.client.Calls("DeleteMessage") + r.client.Calls("POST /v1/replace"); n != 1 || r.amazon != (r.client.Calls("SendMessage") == 1) {
				t.Errorf("%d deletes and replacements, %d sends", n, r.client.Calls("SendMessage"))
			}
		})
	}
}

// A message that another process has received meanwhile is not released, and Release says so.
// [NACK-21]
func TestParkedLost(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		r.park("a", r.workTrail(), nil)
		list := func(lot *redrive.ParkingLot) []*redrive.Parked {
			all, err := lot.List(t.Context(), 10)
			if err != nil || len(all) != 1 {
				t.Fatalf("got %v, error %v", all, err)
			}
			return all
		}
		lot := r.lot()
		all := list(lot)
		if err := lot.GiveBack(t.Context(), all); err != nil {
			t.Error(err)
		}
		other := r.lot()
		taken := list(other)
		if err := lot.Release(t.Context(), all[0], ""); err == nil || !strings.Contains(err.Error(), "another process has received it") {
			t.Errorf("got %v", err)
		}
		r.wantCounts(0, 0, 1)
		if err := other.Release(t.Context(), taken[0], ""); err != nil {
			t.Error(err)
		}
		r.wantCounts(1, 0, 0)
	})
}

// A release that ends between sending and deleting leaves the message in both queues. Another one
// sends the same work, which is done once.
func TestParkedReleaseCrash(t *testing.T) {
	for _, suffix := range []string{"", ".fifo"} {
		inBubble(t, suffix, func(t *testing.T, r *rig) {
			r.amazon = true
			r.park("a", r.workTrail(), nil)
			r.client.SetFault(func(operation string) sqstest.Fault {
				if operation == "DeleteMessage" {
					return sqstest.Dropped
				}
				return sqstest.None
			})
			release := func() error {
				lot := r.lot()
				all, err := lot.List(t.Context(), 10)
				if err != nil || len(all) != 1 {
					t.Fatalf("got %v, error %v", all, err)
				}
				err = lot.Release(t.Context(), all[0], "")
				if back := lot.GiveBack(t.Context(), all); back != nil {
					t.Error(back)
				}
				return err
			}
			if err := release(); err == nil || !strings.Contains(err.Error(), "after it was sent to work") {
				t.Errorf("got %v", err)
			}
			r.client.SetFault(nil)
			if err := release(); err != nil {
				t.Error(err)
			}
			r.startWorker()
			r.sleep(time.Minute)
			r.wantCounts(0, 0, 0)
			if len(r.didTimes()) != 1 || r.didTimes()["order-17#2"] != 1 {
				t.Errorf("done: %v", r.didTimes())
			}
		})
	}
}

// A message without room for its trail has it in the store. Without the store it is not released,
// as it would be other work then.
func TestParkedAside(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		full := make(map[string]types.MessageAttributeValue)
		for _, name := range strings.Split("a b c d e f g h i j", " ") {
			full[name] = types.MessageAttributeValue{DataType: aws.String("String"), StringValue: aws.String("x")}
		}
		r.park("a", r.workTrail(), full)
		blind, err := redrive.NewParkingLot(redrive.ParkingLotConfig{Client: r.client, URL: r.parked})
		if err != nil {
			t.Fatal(err)
		}
		all, err := blind.List(t.Context(), 10)
		if err != nil || len(all) != 1 || !strings.Contains(all[0].Why, "the store of the redrivers holds") {
			t.Fatalf("got %+v, error %v", all, err)
		}
		if err := blind.Release(t.Context(), all[0], r.work); err == nil || !strings.Contains(err.Error(), "pass that store") {
			t.Errorf("got %v", err)
		}
		if err := blind.GiveBack(t.Context(), all); err != nil {
			t.Error(err)
		}
		r.wantCounts(0, 0, 1)

		lot := r.lot()
		all, err = lot.List(t.Context(), 10)
		if err != nil || len(all) != 1 || all[0].Key != "order-17#2" {
			t.Fatalf("got %+v, error %v", all, err)
		}
		if err := lot.Release(t.Context(), all[0], ""); err != nil {
			t.Fatal(err)
		}
		r.startWorker()
		r.sleep(time.Minute)
		if r.didTimes()["order-17#2"] != 1 {
			t.Errorf("done: %v", r.didTimes())
		}
	})
}

// A message that cannot be released stays where it is, and the error says what to do.
func TestParkedRefusals(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		fifo := r.server.Queue(t, "other.fifo")
		r.park("a", trail.Trail{}, nil)
		r.park("b", trail.Trail{Source: sqstest.ARN("gone")}, nil)
		for _, test := range []struct {
			body, to, want string
		}{
			{"a", "", "does not say which queue it came from: name one"},
			{"b", "", "the queue it came from, arn:aws:sqs:us-east-1:000000000000:gone: "},
			{"a", r.parked, "it is parked in "},
			{"a", fifo, "it has no message group, which other.fifo requires: name a standard queue"},
		} {
			lot := r.lot()
			all, err := lot.List(t.Context(), 10)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(all, func(p *redrive.Parked) bool { return p.Body == test.body })
			if err := lot.Release(t.Context(), all[i], test.to); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("release %s to %q: error %v, want %q", test.body, test.to, err, test.want)
			}
			if err := lot.GiveBack(t.Context(), all); err != nil {
				t.Error(err)
			}
		}
		r.wantCounts(0, 0, 2)

		// A message without a trail is the first message of its work.
		lot := r.lot()
		all, err := lot.List(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(all, func(a, b *redrive.Parked) int { return strings.Compare(a.Body, b.Body) })
		if err := lot.Release(t.Context(), all[0], r.work); err != nil {
			t.Error(err)
		}
		got, err := trail.Of(r.look(r.work)[0].MessageAttributes)
		if err != nil || got.Lineage != all[0].ID || got.Redrives != 1 {
			t.Errorf("got %+v, error %v", got, err)
		}
		if err := lot.Discard(t.Context(), all[1]); err != nil {
			t.Error(err)
		}
		if err := lot.Discard(t.Context(), all[1]); err == nil {
			t.Error("it was discarded a second time")
		}
		r.wantCounts(1, 0, 0)
	})
}

// A message that was parked and moved back by a task is parked again for the reason of its worker
// alone, so that its kind stays the same.
func TestParkedAgain(t *testing.T) {
	inBubble(t, "", func(t *testing.T, r *rig) {
		const parkedOnce = "poison, its worker says: exit code 65"
		for body, reason := range map[string]string{
			"once":  parkedOnce,
			"twice": "poison, its worker says: " + parkedOnce, // by an earlier version
		} {
			work := r.workTrail()
			work.Key, work.Lineage, work.Reason = body, "first-"+body, reason
			with, _ := work.Attach(nil)
			if _, err := r.server.Client().SendMessage(t.Context(), &sqs.SendMessageInput{
				QueueUrl: &r.dead, MessageBody: &body, MessageAttributes: with}); err != nil {
				t.Fatal(err)
			}
		}
		r.step(r.redriver(nil))
		all := r.list()
		if len(all) != 2 {
			t.Fatalf("%d are parked, want 2", len(all))
		}
		for _, one := range all {
			if one.Why != "poison, its worker says" || one.Reason != "exit code 65" || one.Kind != redrive.FingerprintOf("exit code 65") {
				t.Errorf("%s: parked because %q, failed because %q, kind %s", one.Body, one.Why, one.Reason, one.Kind)
			}
		}
		for _, m := range r.look(r.parked) {
			if got, _ := trail.Of(m.MessageAttributes); got.Reason != parkedOnce {
				t.Errorf("%s is parked with the reason %q, want %q", *m.Body, got.Reason, parkedOnce)
			}
		}
	})
}
