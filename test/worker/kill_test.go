//go:build unix

package worker_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/claims"
	"tenaq/internal/child"
	"tenaq/internal/testing/built"
	"tenaq/internal/testing/proof"
	"tenaq/records/sqliterecords"
)

// Workers that are killed, or stopped for longer than their leases and continued, break none of the
// rules; nor do they when the server is killed.
func TestKill(t *testing.T) {
	t.Parallel()
	seed := proof.Seed(t)
	server, err := child.New(child.Config{
		Program: built.Program(t), Dir: t.TempDir(), Args: []string{"--log-level", "warn", "--visibility-grace", "1s"},
	})
	must(t, err)
	t.Cleanup(server.Close)
	start := func() {
		_, err := server.Start(t.Context())
		must(t, err)
	}
	start()
	api := connect(server.URL(), 10, nil)
	url, dead := makeQueues(t, api, false, 1000)
	file := filepath.Join(t.TempDir(), "records.db")
	s := newWorkshop(t, childConfig{
		Endpoint: server.URL(), Queue: url, Store: file, Seed: seed, Attempts: 5, Concurrency: 6, LedgerLease: ledgerLease,
	})

	d := troubleTime()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var (
		places        sync.WaitGroup
		mu            sync.Mutex
		kills, pauses int
		hands         []*hand
	)
	for i := range 3 {
		places.Go(func() {
			h, k, p := s.torment(ctx, rand.New(rand.NewPCG(seed, uint64(i)+1)), fmt.Sprint("place-", i))
			mu.Lock()
			defer mu.Unlock()
			hands, kills, pauses = append(hands, h), kills+k, pauses+p
		})
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	killServer := time.Now().Add(d / 2)
	for n := 0; ctx.Err() == nil; n++ {
		o := &sent{order: order{N: n, Key: fmt.Sprint("order-", n), Kind: someKind(rng)}}
		out, err := api.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String(o.String())})
		must(t, err)
		o.id = *out.MessageId
		s.oracle.send(o)
		if time.Now().After(killServer) {
			killServer = killServer.Add(time.Hour)
			must(t, server.Kill())
			start()
		}
		wait(ctx, time.Second/12)
	}
	places.Wait()

	w := &world{T: t, oracle: s.oracle, api: api, url: url, dead: dead}
	w.settle()
	for _, h := range hands {
		h.dismiss()
	}
	store, err := sqliterecords.New(sqliterecords.Config{Path: file})
	must(t, err)
	defer store.Close()
	w.ledger, err = claims.New(claims.Config{Store: store})
	must(t, err)
	violations := s.oracle.judge(w.end())
	t.Log(s.oracle.figures())
	t.Logf("%d workers killed, %d stopped and continued, 1 server killed", kills, pauses)
	mustObey(t, violations)
	must(t, server.Stop())
}
