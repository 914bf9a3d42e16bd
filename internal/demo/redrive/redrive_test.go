package redrive

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/work/trail"
	"tenaq/records/recordstest"
	redriver "tenaq/redrive"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// While the warehouse is down nobody can tell poison from the rest. Afterwards it books whatever comes, however
// often, but for poison and for those that fail once.
func TestWarehouse(t *testing.T) {
	const shaky = shakyPrefix + "0002"
	w, err := newWarehouse(map[string]string{"bad": noArticle})
	must(t, err)
	defer w.close()
	h := newHandler(w.url)
	said := func(order string) string {
		if err := h.handle(t.Context(), booking{order}, nil); err != nil {
			return err.Error()
		}
		return "booked"
	}
	want := func(order, want string) {
		t.Helper()
		if got := said(order); got != want {
			t.Errorf("%s: got %q, want %q", order, got, want)
		}
	}
	for _, order := range []string{"good", "bad", shaky} {
		want(order, "the warehouse answers 503 Service Unavailable: "+overloaded)
	}
	w.open()
	want("good", "booked")
	want("good", "booked")
	want("bad", "the warehouse answers 422 Unprocessable Entity: "+noArticle+", in bad")
	want(shaky, "the warehouse answers 502 Bad Gateway: "+hiccup)
	want(shaky, "booked")
	for order, want := range map[string]account{
		"good": {calls: 3, sick: 1, booked: 2}, "bad": {calls: 2, sick: 1}, shaky: {calls: 3, sick: 1, booked: 1}, "other": {},
	} {
		if got := w.account(order); got != want {
			t.Errorf("%s: got %+v, want %+v", order, got, want)
		}
	}
}

// On every scale there are three poison orders, of two kinds, and the worker makes none of them a dead letter by
// trying the first ones: what fails in one way has one fingerprint.
func TestPoisonOf(t *testing.T) {
	for _, n := range []int{Small.Usual, Slow.Usual, Slow.Orders, Small.Orders, Full.Usual, Full.Orders} {
		for seed := range uint64(50) {
			orders := names("order", n)
			kinds := make(map[redriver.Fingerprint]int)
			for order, why := range poisonOf(orders, rand.New(rand.NewPCG(seed, 1))) {
				if i := slices.Index(orders, order); i < n/5 || i > n*3/4 {
					t.Errorf("seed %d: %s of %d is poison", seed, order, n)
				}
				kinds[redriver.FingerprintOf(answer(http.StatusUnprocessableEntity, why+", in "+order).Error())]++
			}
			if len(kinds) != len(Poison) || kinds[redriver.FingerprintOf(answer(422, noArticle+", in order-1").Error())] != Poison[noArticle] {
				t.Errorf("seed %d: of %d orders %v are poison", seed, n, kinds)
			}
		}
	}
}

// What is written in the likeness of a dead letter can be read as one.
func TestAsDead(t *testing.T) {
	var m types.SendMessageBatchRequestEntry
	asDead("arn:aws:sqs:us-east-1:000000000000:work")("order-1", &m)
	got, err := trail.Of(m.MessageAttributes)
	must(t, err)
	if got.Key != "order-1" || got.Lineage == "" || got.Attempts != Attempts || got.Reason != answer(503, overloaded).Error() || got.Poison {
		t.Errorf("got %+v", got)
	}
}

// A recorder is a queue that remembers what was sent.
type recorder struct {
	redriver.SQS
	sent []*sqs.SendMessageInput
}

func (r *recorder) SendMessage(_ context.Context, in *sqs.SendMessageInput, _ ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	r.sent = append(r.sent, in)
	return &sqs.SendMessageOutput{}, nil
}

// A witness tells of what is sent on its way and not of what is parked, and takes the identity away only where that
// is what is left out.
func TestWitness(t *testing.T) {
	for _, broken := range []Breakage{Nothing, Breakers, Identities} {
		var told []string
		demo := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, in *http.Request) {
			var b bytes.Buffer
			_, _ = b.ReadFrom(in.Body)
			told = append(told, in.URL.Path+" "+b.String())
		}))
		r := &recorder{}
		w := &witness{r, Task{Queues: Queues{Work: "work", Parking: "parking"}, URL: demo.URL, Break: broken}}
		attributes := map[string]types.MessageAttributeValue{trail.Attribute: {}, "colour": {}}
		for _, queue := range []string{"parking", "work"} {
			_, err := w.SendMessage(t.Context(), &sqs.SendMessageInput{
				QueueUrl: &queue, MessageBody: aws.String(`{"order":"order-1"}`), MessageAttributes: attributes,
			})
			must(t, err)
		}
		demo.Close()
		if want := []string{`/sent {"order":"order-1"}`}; !slices.Equal(told, want) {
			t.Errorf("without %q: told %q, want %q", broken, told, want)
		}
		if len(r.sent[0].MessageAttributes) != 2 || len(attributes) != 2 {
			t.Errorf("without %q: a parked message has attributes %v", broken, r.sent[0].MessageAttributes)
		}
		if _, has := r.sent[1].MessageAttributes[trail.Attribute]; has == (broken == Identities) || len(r.sent[1].MessageAttributes) == 0 {
			t.Errorf("without %q: a redriven message has attributes %v", broken, r.sent[1].MessageAttributes)
		}
	}
}

// Every state of the breaker is heard of, those too that were over before their step was.
func TestStates(t *testing.T) {
	k := &keeper{}
	for _, s := range []step{
		{Breaker: "CLOSED", Redriven: 5, OnTheWay: 5},
		{Breaker: "HALF_OPEN", Trips: 1, Redriven: 6},
		{Breaker: "HALF_OPEN", Trips: 2, Redriven: 7},
		{Breaker: "OPEN", Trips: 3, Redriven: 7},
		{Breaker: "HALF_OPEN", Trips: 3, Redriven: 8},
		{Breaker: "CLOSED", Redriven: 9},
	} {
		body, err := json.Marshal(s)
		must(t, err)
		k.step(nil, httptest.NewRequest(http.MethodPost, "/step", bytes.NewReader(body)))
	}
	const want = "CLOSED OPEN HALF_OPEN OPEN HALF_OPEN OPEN HALF_OPEN CLOSED"
	if got := strings.Join(k.look().states, " "); got != want || k.seen.first != 5 || k.seen.most != 5 {
		t.Errorf("got %s, want %s; %+v", got, want, k.seen)
	}
}

// Package redrive takes every policy, and the one without breakers never opens one.
func TestPolicies(t *testing.T) {
	for _, broken := range []Breakage{Nothing, Breakers, Identities} {
		_, err := redriver.New(redriver.Config{
			Client: &recorder{}, Store: recordstest.NewMemory(), DeadLetterURL: "dead", ParkingURL: "parking",
			Policy: policy(broken), Interval: Full.Look, Look: Full.Look,
		})
		must(t, err)
	}
	if p := policy(Breakers); p.RateFirst != p.RateMax || p.Failures <= Full.Orders {
		t.Errorf("without breakers: %+v", p)
	}
}
