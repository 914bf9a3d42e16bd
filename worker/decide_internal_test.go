package worker

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"tenaq/claims"
)

// Every row is a state of affairs and what becomes of the message. Where the queue has no
// dead-letter queue a message is never buried.
func TestDecide(t *testing.T) {
	const retry, pause = 7 * time.Second, 11 * time.Second
	sick, gone := errors.New("sick"), errors.New("gone")
	refused := func(why claims.Refusal) *claims.Refused {
		return &claims.Refused{Entry: claims.Entry{Key: "k", Reason: "sick"}, Why: why, RetryIn: 3 * time.Second}
	}
	again := func(reason string, failed error) verdict {
		return verdict{do: giveBack, end: claims.Failed, after: retry, reason: reason, failed: failed}
	}
	dead := func(end claims.State, reason string, failed error) verdict {
		return verdict{do: bury, end: end, reason: reason, failed: failed}
	}
	busy, done, used, person := refused(claims.Busy), refused(claims.Done), refused(claims.UsedUp), refused(claims.NeedsPerson)
	later, unavailable, poison := Later(time.Hour, "closed"), Unavailable(sick), Poison(sick)
	wrapped := fmt.Errorf("order 17: %w", poison)
	handled := func(err error, change ...func(*facts)) facts {
		f := facts{handled: true, err: err, attempt: 1}
		for _, c := range change {
			c(&f)
		}
		return f
	}
	stopped := func(why error) func(*facts) { return func(f *facts) { f.stopped = why } }
	ended := func(f *facts) { f.ended = ErrLost }
	last := func(f *facts) { f.attempt = 3 }

	for name, c := range map[string]struct {
		facts          facts
		want, deadless verdict // without a dead-letter queue, where that differs
	}{
		"claimed":                {facts: facts{claimed: true, attempt: 1}, want: verdict{do: handle}},
		"claimed, last attempt":  {facts: facts{claimed: true, attempt: 3}, want: verdict{do: handle}},
		"claimed, one too many":  {facts{claimed: true, attempt: 4, before: "w was lost"}, dead(unbegun, "3 attempts, of which the last was cut short: w was lost", nil), verdict{do: handle}},
		"no ledger":              {facts: facts{attempt: 3}, want: verdict{do: handle}},
		"no ledger, too many":    {facts{attempt: 4}, dead("", "3 receives, and no worker recorded why they failed", nil), verdict{do: handle}},
		"ledger down":            {facts: facts{unknown: sick}, want: letGo(pause, "the ledger cannot be used: sick")},
		"ledger down, and lost":  {facts: facts{unknown: sick, ended: ErrLost}, want: letGo(pause, "the ledger cannot be used: sick")},
		"lost before the claim":  {facts: facts{ended: ErrLost}, want: verdict{do: abandon, told: Lost, err: ErrLost}},
		"lost, and nameless":     {facts: facts{ended: ErrLost, unnamed: sick}, want: verdict{do: abandon, told: Lost, err: ErrLost}},
		"store of bodies down":   {facts: facts{unfetched: sick}, want: letGo(pause, "sick")},
		"nameless":               {facts{unnamed: sick}, dead(claims.Exhausted, "it is unknown what work the message belongs to: sick", Poison(sick)), again("it is unknown what work the message belongs to: sick", Poison(sick))},
		"memo too long":          {facts{invalid: sick}, dead(claims.Exhausted, "sick", Poison(sick)), again("sick", Poison(sick))},
		"busy":                   {facts: facts{refused: busy}, want: verdict{do: giveBack, after: 3 * time.Second, told: Busy, err: busy}},
		"done before":            {facts: facts{refused: done}, want: verdict{do: remove, told: Duplicate, err: done}},
		"used up":                {facts{refused: used}, dead("", "sick", nil), again("sick", nil)},
		"parked":                 {facts{refused: person}, dead("", person.Error(), nil), again(person.Error(), nil)},
		"success":                {facts: handled(nil), want: verdict{do: remove, end: claims.Completed, told: Done}},
		"success, though lost":   {facts: handled(nil, stopped(ErrLost), ended), want: verdict{do: remove, end: claims.Completed, told: Done}},
		"failed":                 {facts: handled(sick), want: again("sick", sick)},
		"failed for the last":    {handled(sick, last), dead(claims.Exhausted, "sick", sick), again("sick", sick)},
		"poison":                 {handled(poison), dead(claims.Exhausted, "sick", poison), again("sick", poison)},
		"poison, wrapped":        {handled(wrapped), dead(claims.Exhausted, "order 17: sick", wrapped), again("order 17: sick", wrapped)},
		"later":                  {facts: handled(later), want: letGo(time.Hour, "closed")},
		"later, last attempt":    {facts: handled(later, last), want: letGo(time.Hour, "closed")},
		"unavailable":            {facts: handled(unavailable, last), want: letGo(pause, "sick")},
		"timeout":                {facts: handled(gone, stopped(ErrTimeout)), want: again("the handler exceeded its time limit: gone", gone)},
		"timeout, said so":       {facts: handled(ErrTimeout, stopped(ErrTimeout)), want: again(ErrTimeout.Error(), ErrTimeout)},
		"later, after a timeout": {facts: handled(later, stopped(ErrTimeout)), want: letGo(time.Hour, "closed")},
		"draining":               {facts: handled(gone, stopped(ErrDraining), last), want: letGo(0, "the worker stops")},
		"lost":                   {facts: handled(gone, stopped(ErrLost), ended), want: verdict{do: abandon, end: claims.Failed, reason: ErrLost.Error(), told: Lost, err: gone}},
		"lost, poison":           {facts: handled(poison, stopped(ErrLost), ended), want: verdict{do: abandon, end: claims.Failed, reason: ErrLost.Error(), told: Lost, err: poison}},
		"another one lost":       {facts: handled(gone, stopped(ErrLost)), want: letGo(0, "another message of its batch was lost")},
	} {
		for _, hasDead := range []bool{true, false} {
			f, want := c.facts, c.want
			f.attempts, f.dead, f.retry, f.pause = 3, hasDead, retry, pause
			if !hasDead && c.deadless != (verdict{}) || !hasDead && c.want.do == bury {
				want = c.deadless
			}
			if got := decide(f); !reflect.DeepEqual(got, want) {
				t.Errorf("%s, dead-letter queue %t:\ngot  %+v\nwant %+v", name, hasDead, got, want)
			}
		}
	}
}
