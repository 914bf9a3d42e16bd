package budget

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"tenaq/internal/bench"
	"tenaq/internal/child"
	"tenaq/internal/cli"
)

// measureOverload asks for twice the maximum rate, and then for half of it. Refused requests get
// the error of SQS for it, the rate hardly falls during the overload, and afterwards everything is
// as before.
func measureOverload(ctx context.Context, e *env) ([]measure, error) {
	admin, err := child.FreeAddr()
	if err != nil {
		return nil, err
	}
	e.own.Args = append(e.own.Args, "--admin-listen", admin)
	if err := e.start(ctx); err != nil {
		return nil, err
	}
	closed, rounds := e.load(), e.rounds()
	c, err := e.warm(ctx, bench.Work{Kind: bench.Send}, closed)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	e.tell("closed loop", 0)
	peak, _, err := medianRate(ctx, c, closed, rounds)
	if err != nil {
		return nil, err
	}

	e.tell("overload", 0.2)
	health := watchHealth(ctx, "http://"+admin+"/livez")
	much := bench.Load{Clients: int(e.count(4096, 512)), Rate: 2 * peak, Round: e.seconds(2, 1)}
	good, all, err := medianRate(ctx, c, much, rounds)
	slowest, sick := health()
	if err != nil {
		return nil, err
	}
	most, err := e.memory(true)
	if err != nil {
		return nil, err
	}
	found := []measure{
		{"goodput", good / peak, fmt.Sprintf("%.0f/s against %.0f/s, %d of %d requests refused, p99 %s", good, peak, all.Throttled, all.Requests, cli.ShortDuration(all.Latency.At(99)))},
		{"refused under another name", float64(all.Unnamed), ""},
		{"most memory", most, ""},
		{"health answers within", slowest.Seconds(), ""},
	}
	if sick != nil {
		return found, fmt.Errorf("the health check failed under overload: %w", sick)
	}

	e.tell("rest", 0.6)
	if err := rest(ctx, e.seconds(30, 3)); err != nil {
		return found, err
	}
	half := closed
	half.Rate = peak / 2
	e.tell("half load", 0.7)
	calm, after, err := medianRate(ctx, c, half, rounds)
	if err != nil {
		return found, err
	}
	e.tell("closed loop again", 0.9)
	again, _, err := medianRate(ctx, c, closed, rounds)
	return append(found,
		measure{"half load afterwards", calm / half.Rate,
			fmt.Sprintf("%.0f/s of %.0f/s, %d refused, p99 %s", calm, half.Rate, after.Throttled,
				cli.ShortDuration(after.Latency.At(99)))},
		measure{"closed loop afterwards", again / peak,
			fmt.Sprintf("%.0f/s against %.0f/s", again, peak)},
	), err
}

// How often health is checked, and how long a check may take.
const (
	healthEvery = 100 * time.Millisecond
	healthMax   = 10 * time.Second
)

// watchHealth checks the health of a server repeatedly, each time on a new connection, as load
// balancers do. The function that it returns ends that, and returns the time of the slowest answer
// and the error of a failed one.
func watchHealth(ctx context.Context, url string) (end func() (slowest time.Duration, err error)) {
	ctx, cancel := context.WithCancel(ctx)
	client := &http.Client{Timeout: healthMax, Transport: &http.Transport{DisableKeepAlives: true}}
	var slowest time.Duration
	var failed error
	done := make(chan struct{})
	go func() {
		defer close(done)
		for failed == nil && ctx.Err() == nil {
			began := time.Now()
			err := askHealth(ctx, client, url)
			slowest = max(slowest, time.Since(began))
			if ctx.Err() == nil { // else it failed because it was given up
				failed = err
			}
			cli.Pause(ctx, healthEvery)
		}
	}()
	return func() (time.Duration, error) {
		cancel()
		<-done
		return slowest, failed
	}
}

func askHealth(ctx context.Context, client *http.Client, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, answer.Status)
	}
	return nil
}
