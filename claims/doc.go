// Package claims keeps two processes from doing the same work at the same time, and keeps completed
// work from being done again. Queues that deliver at least once need this: when a visibility
// timeout expires, a worker dies or a dead letter is brought back, a second worker receives the
// same work.
//
// A Ledger gives out claims on keys. It keeps one record per key in a records.Store:
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
//     every earlier claim on the key. The ledger refuses every write of an earlier holder with
//     ErrLost. Other systems can do the same by remembering the largest fence that they have seen.
//   - Busy and done are different answers. Busy means that a holder may be working: bring the
//     message back later. Done means that the work is recorded as completed: delete the message.
//   - When a holder dies, another one can take over the claim after the lease expires. How far the
//     work got is then unknown. Config.Lost decides what happens.
//   - A holder that cannot reach the store stops in time. The context of Hold ends, by the
//     monotonic clock of its process, before another holder can take over. That clock stops while a
//     machine is suspended; then only the fence protects.
//   - Acquire makes only conditional writes, one for a new key. No answer rests on an earlier read.
//
// What it cannot do: make an effect happen exactly once in a system that accepts neither an
// idempotency key nor a fence. Pass EffectKey to a system that accepts an idempotency key.
//
// If the store has no clock (DynamoDB), a single read does not show how old a claim is. A ledger
// then takes over a claim only after it has seen it unchanged for a whole lease, so a take-over
// needs two attempts with the same Ledger.
package claims
