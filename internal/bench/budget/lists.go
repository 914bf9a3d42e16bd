package budget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"tenaq/internal/bench"
	"tenaq/internal/cli"
	"tenaq/internal/ops/doctor"
)

// A listing is a server whose lists are long: it has many queues, and four of them have messages.
type listing struct {
	*env
	queues int64    // that are empty
	wrong  []string // answers that cannot be right

	deep, groups, history, tasked string // names of the queues with messages
}

// A list is pages of one kind.
type list struct {
	name  string
	pages []page
}

// A page is a request for the first page of a list, and what it and the pages after it must have.
type page struct {
	path, body string // a body makes it a POST
	right      func(*answer) bool
}

// An answer is the union of the answers.
type answer struct {
	Queues, Messages, Groups, Kinds, Outcomes, Tasks, Samples []listedItem

	Snapshot        struct{ Total, Matched int64 }
	Grouped, Count  int64
	Next, MessageID string
}

// A listedItem is an entry of a list.
type listedItem struct{ MessageID string }

// measureLists asks for pages of every list, one after the other, beside many queues and messages.
func measureLists(ctx context.Context, e *env) ([]measure, error) {
	l := &listing{env: e, queues: e.count(100_000, 1_000)}
	began := time.Now()
	if err := l.fill(ctx); err != nil {
		return nil, err
	}
	filled := time.Since(began)
	if err := l.settle(ctx); err != nil {
		return nil, err
	}
	lists, err := l.lists(ctx)
	if err != nil {
		return nil, err
	}
	var found []measure
	for i, list := range lists {
		e.tell("pages of "+list.name, float64(i)/float64(len(lists)))
		before, err := bench.CPUTime(l.own.Server.PID())
		if err != nil {
			return nil, err
		}
		took, err := l.ask(ctx, list)
		if err != nil {
			return nil, err
		}
		after, err := bench.CPUTime(l.own.Server.PID())
		if err != nil {
			return nil, err
		}
		slices.Sort(took)
		found = append(found, measure{list.name, milliseconds(doctor.QuantileOf(took, 0.99)),
			fmt.Sprintf("p99 of %d pages; median %s, slowest %s; CPU time of the server %s each",
				len(took), cli.ShortDuration(doctor.QuantileOf(took, 0.5)),
				cli.ShortDuration(took[len(took)-1]),
				cli.ShortDuration((after-before)/time.Duration(len(took))))})
	}
	note := strings.Join(l.wrong[:min(len(l.wrong), 3)], "; ")
	if note == "" {
		note = fmt.Sprintf("%d queues and %d messages, made in %s", l.queues, 10*l.share(),
			cli.ShortDuration(filled))
	}
	return append(found, measure{"wrong pages", float64(len(l.wrong)), note}), nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// share is a tenth of all messages.
func (l *listing) share() int64 { return l.count(1_000_000, 2_000) }

// fill creates the queues and what is in them. A tenth of the messages is in groups of ten.
func (l *listing) fill(ctx context.Context) error {
	err := bench.Each(ctx, l.endpoint, "CreateQueue", l.queues, l.telling("create queues"),
		func(i int64) string { return fmt.Sprintf(`{"QueueName":"list-%d"}`, i) })
	if err != nil {
		return err
	}
	for _, q := range []struct {
		name *string
		work bench.Work
	}{
		{&l.deep, bench.Work{Depth: 9 * l.share()}},
		{&l.groups, bench.Work{Depth: l.share(), Groups: int(l.share() / 10)}},
		{&l.history, bench.Work{Tags: map[string]string{"tenaq:history": "1d"}}},
		{&l.tasked, bench.Work{Depth: 1_000}},
	} {
		q.work.Kind, q.work.Size = bench.Send, 100
		url, err := bench.Fill(ctx, l.work(q.work), l.telling("fill the queues"))
		if err != nil {
			return err
		}
		if *q.name = path.Base(url); q.work.Tags == nil {
			continue
		}
		lives, err := l.warm(ctx, bench.Work{Kind: bench.Life, Batch: 10, On: url}, l.load())
		if err != nil {
			return err
		}
		load := l.load()
		load.Round = l.seconds(20, 0.5)
		_, err = lives.Round(ctx, load)
		if err = errors.Join(err, lives.Close()); err != nil {
			return err
		}
	}
	return nil
}

// settle makes tasks, and waits until the monitor, whose list is searched and sorted, has seen all
// queues.
func (l *listing) settle(ctx context.Context) error {
	for i := range 20 {
		task := fmt.Sprintf(`{"queue":%q,"do":"move","to":"list-%d","limit":1}`, l.tasked, i)
		if _, _, err := l.get(ctx, "/v1/tasks", task); err != nil {
			return err
		}
		for active := true; active; { // a queue has one at a time
			a, _, err := l.get(ctx, "/v1/tasks?state=active&queue="+l.tasked, "")
			if err == nil {
				err = rest(ctx, 5*time.Millisecond)
			}
			if err != nil {
				return err
			}
			active = len(a.Tasks) > 0
		}
	}
	for {
		l.tell("let the monitor see the queues", 0)
		a, _, err := l.get(ctx, "/v1/queues?sort=visible&desc=1", "")
		if err != nil || a.Snapshot.Total >= l.queues+4 {
			return err
		}
		if err := rest(ctx, time.Second); err != nil {
			return err
		}
	}
}

// lists returns the lists.
func (l *listing) lists(ctx context.Context) ([]list, error) {
	searched := func(a *answer) bool {
		return len(a.Queues) > 0 && a.Snapshot.Total >= l.queues+4 && a.Snapshot.Matched > 0
	}
	messages := func(a *answer) bool { return len(a.Messages) == 100 }
	outcomes := func(a *answer) bool { return len(a.Outcomes) > 0 }
	tasks := func(a *answer) bool { return len(a.Tasks) > 0 }
	of := func(queue, rest string) string { return "/v1/queues/" + queue + rest }
	all := []list{
		{"queues", []page{
			{"/v1/queues?limit=50", "", func(a *answer) bool { return len(a.Queues) == 50 }},
			{"/v1/queues?sort=visible&desc=1&limit=100", "", searched},
			{"/v1/queues?sort=trouble&desc=1&limit=100", "", searched},
			{fmt.Sprintf("/v1/queues?sort=age&from=%d", l.queues/2), "", searched},
			{"/v1/queues?text=T-7", "", searched},
			{"/v1/queues?only=active&text=budget&sort=sent&desc=1", "", searched},
		}},
		{"messages", []page{
			{of(l.deep, "/messages?limit=100"), "", messages},
			{of(l.deep, "/messages?limit=100&state=visible&body=1024&trail=1"), "", messages},
			{of(l.groups, "/messages?limit=100"), "", messages},
		}},
		{"groups", []page{
			{of(l.groups, "/groups?limit=100"), "",
				func(a *answer) bool { return len(a.Groups) == 100 }},
		}},
		{"reasons", []page{
			{of(l.deep, "/reasons"), "",
				func(a *answer) bool { return a.Grouped == 1_000 && len(a.Kinds) == 1 }},
		}},
		{"history", []page{
			{of(l.history, "/history?limit=100"), "", outcomes},
			{of(l.history, "/history?limit=100&order=oldest"), "", outcomes},
			{of(l.history, "/history?limit=100&outcome=deleted&body=1024"), "", outcomes},
		}},
		{"tasks", []page{
			{"/v1/tasks", "", tasks},
			{"/v1/tasks?queue=" + l.tasked, "", tasks},
		}},
		{"count", []page{
			{"/v1/tasks/count", fmt.Sprintf(`{"queue":%q}`, l.deep),
				func(a *answer) bool { return a.Count > 0 && len(a.Samples) == 3 }},
			{"/v1/tasks/count", fmt.Sprintf(`{"queue":%q,"filter":{"text":"absent"}}`, l.deep),
				func(a *answer) bool { return a.Count == 0 && len(a.Samples) == 0 }},
		}},
		{name: "message"},
	}
	for _, queue := range []string{l.deep, l.groups} {
		a, _, err := l.get(ctx, of(queue, "/messages?limit=100"), "")
		if err != nil {
			return nil, err
		}
		for _, m := range a.Messages {
			last := &all[len(all)-1]
			last.pages = append(last.pages, page{"/v1/messages/" + m.MessageID, "",
				func(a *answer) bool { return a.MessageID == m.MessageID }})
		}
	}
	return all, nil
}

// ask asks for pages of a list: first pages, and after half of those the next ones.
func (l *listing) ask(ctx context.Context, of list) (took []time.Duration, err error) {
	n := int(l.choose(300, 20))
	next := make([]string, len(of.pages))
	for i := range n {
		k := i % len(of.pages)
		p := of.pages[k]
		where, body := p.path, p.body
		switch after := next[k]; {
		case after == "":
		case body != "":
			body = fmt.Sprintf(`%s,"after":%q}`, strings.TrimSuffix(body, "}"), after)
		case strings.Contains(where, "?"):
			where += "&after=" + url.QueryEscape(after)
		default:
			where += "?after=" + url.QueryEscape(after)
		}
		a, d, err := l.get(ctx, where, body)
		if err != nil {
			return nil, err
		}
		if took = append(took, d); !p.right(a) && next[k] == "" {
			l.wrong = append(l.wrong, "not what was asked for: "+where)
		}
		if next[k] = a.Next; i > n/2 {
			next[k] = ""
		}
	}
	return took, nil
}

// get makes a request, and returns its answer and how long that took.
func (l *listing) get(
	ctx context.Context, path, body string,
) (a *answer, took time.Duration, err error) {
	a = new(answer)
	if body == "" {
		took, err = l.env.ask(ctx, "GET", path, nil, a)
	} else {
		took, err = l.env.ask(ctx, "POST", path, json.RawMessage(body), a)
	}
	return a, took, err
}
