package budget

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"

	"tenaq/internal/bench"
)

// liveStreams is how many live streams the server serves at once, and liveStreamsOf how many to one
// address.
const liveStreams, liveStreamsOf = 64, 8

// measureLive compares sends beside as many open pages of the console as the server serves with
// sends beside none.
func measureLive(ctx context.Context, e *env) ([]measure, error) {
	without, err := e.contender("without", bench.Work{Kind: bench.Send})
	if err != nil {
		return nil, err
	}
	w := e.work(bench.Work{Kind: bench.Send})
	inner, err := bench.New(w)
	if err != nil {
		return nil, err
	}
	with := &besideLive{Contender: inner, e: e, queue: w.Queue}
	ratio, note, err := e.compare(ctx, without, bench.Named{Name: "with", Contender: with})
	return []measure{
		{"send", ratio, note},
		{"more memory", with.memory, fmt.Sprintf("the most in a round, %d streams", liveStreams)},
	}, err
}

// besideLive works while live streams show its queue.
type besideLive struct {
	bench.Contender
	e      *env
	queue  string
	memory float64 // by which the server grew in a round, in MiB, at most
}

func (b *besideLive) Round(ctx context.Context, load bench.Load) (t bench.Tally, err error) {
	before, err := b.e.memory(false)
	if err != nil {
		return t, err
	}
	streams, err := openLive(ctx, b.e.endpoint, b.queue)
	if err == nil {
		t, err = b.Contender.Round(ctx, load)
	}
	if err == nil {
		err = streams.err()
	}
	after, failed := b.e.memory(false)
	b.memory = max(b.memory, after-before)
	streams.close()
	return t, errors.Join(err, failed)
}

// liveReaders read streams until they are closed.
type liveReaders struct {
	cancel context.CancelFunc
	ended  chan error // why each stream ended
	open   int
}

// openLive opens all streams, from several addresses of the loopback interface.
func openLive(ctx context.Context, at bench.Endpoint, queue string) (r *liveReaders, err error) {
	ctx, cancel := context.WithCancel(ctx)
	r = &liveReaders{cancel: cancel, ended: make(chan error, liveStreams)}
	url := at.URL.JoinPath("/v1/live").String() + "?queues=" + queue
	for r.open < liveStreams {
		from := net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(1+r.open/liveStreamsOf))}
		client := &http.Client{Transport: &http.Transport{
			DialContext: (&net.Dialer{LocalAddr: &from}).DialContext, DisableKeepAlives: true,
		}}
		request, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			return r, err
		}
		answer, err := client.Do(request)
		if err != nil {
			return r, err
		}
		if answer.StatusCode != http.StatusOK {
			answer.Body.Close()
			return r, fmt.Errorf("GET %s answers %s", url, answer.Status)
		}
		r.open++
		go func() {
			defer answer.Body.Close()
			_, err := io.Copy(io.Discard, answer.Body)
			r.ended <- fmt.Errorf("a live stream ended: %v", err)
		}()
	}
	return r, nil
}

// err returns why a stream has ended.
func (r *liveReaders) err() error {
	select {
	case err := <-r.ended:
		r.open--
		return err
	default:
		return nil
	}
}

// close ends all streams and waits until they are.
func (r *liveReaders) close() {
	r.cancel()
	for ; r.open > 0; r.open-- {
		<-r.ended
	}
}
