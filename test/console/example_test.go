package console_test

import (
	"fmt"
	"slices"
	"testing"
)

// With one click, a newcomer sees why a worker failed. From there, dead letters go back as on any
// server. [V1-26, CONSOLE-15]
func TestExample(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	b := s.open(t, "")
	b.sees("There is no queue yet")
	eval[bool](b, `(window.clicks = 0, addEventListener("click", () => window.clicks++, true), true)`)
	b.click("main button", "Break a worker (demo)")
	for _, kind := range []string{
		"3 Timeout: no answer to the payment of # within # s",
		"2 InvalidAddress: the postcode # has a letter",
		"1 SyntaxError: the body ends at byte #, within an object",
	} {
		b.until("the kind "+kind+" is there", fmt.Sprintf(`[...document.querySelectorAll(".kindhead")].some((k) => k.querySelector(".number").innerText + " " + k.querySelector(".why").innerText === %s)`, quoted(kind)))
	}
	if got := eval[int](b, "window.clicks"); got != 1 {
		t.Errorf("the reasons were shown after %d clicks, want 1", got)
	}
	b.sees("3 kinds of failure in all 6 messages")
	b.sees("A worker failed. It gave up these messages.")
	b.until("the command is shown", `document.querySelector('.toast [data-same="example"] code').textContent.startsWith("tenaq queue example --endpoint-url ")`)
	b.judged("example")
	s.logged("Example", "example-orders")
	if got := s.queues(); !slices.Equal(got, []string{"example-orders", "example-orders-dlq"}) {
		t.Errorf("there are the queues %v", got)
	}

	b.click(".kindhead", "Timeout")
	b.asks(".kindbody button", "Send back", "Send back")
	b.submit()
	b.closes()
	got := 0
	for range 20 { // the task sends them back at a rate
		got += len(s.receive("example-orders", object{"WaitTimeSeconds": 1, "MaxNumberOfMessages": 10}))
		if got >= 6 {
			break
		}
	}
	if got != 6 {
		t.Errorf("%d messages wait, want the 3 that waited and the 3 that were sent back", got)
	}
	b.goTo("#/q/example-orders-dlq/dead")
	b.until("they have gone", `document.querySelectorAll(".kindhead").length === 2 && ![...document.querySelectorAll(".kindhead")].some((k) => k.innerText.includes("Timeout"))`)
}
