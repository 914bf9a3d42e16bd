package claims_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"tenaq/claims"
	"tenaq/records/recordstest"
)

// Three deliveries of one message: the second finds the key busy while the first is being handled,
// and the third finds the work done. A program opens a store of records/sqliterecords or
// records/pgrecords instead of the one in memory.
func ExampleLedger_Acquire() {
	ctx := context.Background()
	ledger, err := claims.New(claims.Config{Store: recordstest.NewMemory(), Owner: "worker-1", Lease: time.Minute})
	if err != nil {
		log.Fatal(err)
	}

	var first *claims.Claim
	for range 3 {
		claim, err := ledger.Acquire(ctx, "order-17")
		refused, ok := errors.AsType[*claims.Refused](err)
		switch {
		case ok && refused.Why == claims.Busy:
			// Give the message back until then. It is no attempt and no failure.
			fmt.Println("busy, try again within a minute:", refused.RetryIn > 0 && refused.RetryIn <= time.Minute)
			if err := first.Complete(ctx, []byte("receipt 42")); err != nil {
				log.Fatal(err)
			}
		case ok && refused.Why == claims.Done:
			fmt.Printf("done, delete the message: %s\n", refused.Result)
		case err != nil:
			log.Fatal(err) // unknown: the message has to come back
		default:
			fmt.Println("claimed, attempt", claim.Attempts())
			first = claim
		}
	}
	// Output:
	// claimed, attempt 1
	// busy, try again within a minute: true
	// done, delete the message: receipt 42
}

// Work runs under the context of Hold, which renews the claim and ends when it is lost.
func ExampleClaim_Hold() {
	ledger, err := claims.New(claims.Config{Store: recordstest.NewMemory()})
	if err != nil {
		log.Fatal(err)
	}
	charge := func(ctx context.Context, idempotencyKey string) (receipt string, err error) {
		return "receipt for " + idempotencyKey, ctx.Err()
	}
	work := func(ctx context.Context, key string) error {
		claim, err := ledger.Acquire(ctx, key)
		if err != nil {
			return err
		}
		// The work may take any time, but a holder that hangs loses the claim.
		limited, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		held, stop := claim.Hold(limited)
		defer stop()
		receipt, err := charge(held, claims.EffectKey(claim.Key(), 0))
		if err != nil {
			// ErrLost here means that another holder does it now.
			return errors.Join(err, claim.Fail(context.WithoutCancel(ctx), err.Error()))
		}
		return claim.Complete(ctx, []byte(receipt))
	}

	ctx := context.Background()
	fmt.Println(work(ctx, "order-17"))
	entry, err := ledger.Entry(ctx, "order-17")
	fmt.Printf("%s: %s, %v\n", entry.State, entry.Result, err)
	// Output:
	// <nil>
	// completed: receipt for order-17, <nil>
}

// A holder died, and it is unknown whether it charged the card. The policy asks the provider before
// it is charged again.
func ExampleConfig_lost() {
	ctx := context.Background()
	charged := map[string]string{"order-17": "receipt 42"} // what the provider knows
	lookup := func(_ context.Context, before claims.Entry) (claims.Decision, error) {
		if receipt, ok := charged[claims.EffectKey(before.Key, 0)]; ok {
			return claims.Settled([]byte(receipt)), nil
		}
		if before.Attempts > 3 {
			return claims.Park("four holders were lost, have a look"), nil
		}
		return claims.Retry(), nil
	}
	store := recordstest.NewMemory()
	ledger, err := claims.New(claims.Config{Store: store, Lease: time.Second, Lost: lookup})
	if err != nil {
		log.Fatal(err)
	}
	for _, key := range []string{"order-17", "order-18"} {
		if _, err := ledger.Acquire(ctx, key); err != nil { // and its holder dies
			log.Fatal(err)
		}
	}
	time.Sleep(time.Second)

	_, err = ledger.Acquire(ctx, "order-17")
	if refused, ok := errors.AsType[*claims.Refused](err); ok && refused.Why == claims.Done {
		fmt.Printf("order-17 is done: %s\n", refused.Result)
	}
	claim, err := ledger.Acquire(ctx, "order-18")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("order-18 is tried again, attempt", claim.Attempts())
	// Output:
	// order-17 is done: receipt 42
	// order-18 is tried again, attempt 2
}
