// Package claims keeps two processes from doing one piece of work at the same time, or again after
// it is done. Queues that deliver at least once need that: a visibility timeout ends, a worker
// dies, a dead letter is brought back, and the same message is there twice.
//
// A Ledger gives out claims on keys, one record each in a records.Store:
//
//	claim, err := ledger.Acquire(ctx, "order-17")
//	if refused, ok := errors.AsType[*claims.Refused](err); ok {
//		switch refused.Why {
//		case claims.Busy: // another worker holds it: come back in refused.RetryIn
//		case claims.Done: // the work is completed: refused.Result is its result
//		}
//	}
//	if err != nil {
//		return err
//	}
//	ctx, stop := claim.Hold(ctx) // renews in the background; ctx ends when the claim is lost
//	defer stop()
//	result, err := work(ctx, claim.Fence())
//	if err != nil {
//		return claim.Fail(context.WithoutCancel(ctx), err.Error())
//	}
//	return claim.Complete(ctx, result)
//
// What it guarantees:
//
//   - At most one claim on a key is current. Its fence is a number that is larger than that of
//     every earlier claim on the key, whatever happened to those. Every write of an earlier holder
//     to the ledger is refused with ErrLost, and every other system that remembers the largest
//     fence it has seen can refuse the rest.
//   - Busy and done are different answers. Busy means that a holder may be at work: the message has
//     to come back later. Done means that the work is recorded as completed: the message can go.
//   - A claim whose holder died can be taken over when its lease is over. Then it is unknown how
//     far the holder came, and what happens is a decision: see Config.Lost.
//   - A holder that cannot reach the store is told to stop: the context of Hold ends, by the
//     monotonic clock of its own process, before another holder can take over. On a machine that
//     was suspended that clock stood still; then the fence alone protects.
//   - Acquire makes conditional writes only, one for a new key: no answer rests on something that
//     was read before.
//
// What it cannot do: make the effect of the work happen exactly once in a system that takes neither
// an idempotency key nor a fence. EffectKey is the key to give to one that does.
//
// When the store has no clock (DynamoDB), one look does not show how old a claim is. A ledger then
// waits until it has seen a claim unchanged for a whole lease, so a take-over needs two attempts
// with the same Ledger.
package claims
