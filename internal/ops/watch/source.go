package watch

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"tenaq/internal/cli"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/ops/doctor"
)

// A source reads the state of queues.
type source interface {
	queues(ctx context.Context) ([]*watchedQueue, error)
	where() string

	// commands returns commands that show more of a queue.
	commands(templates []string, queue string) []string
}

// An sqsSource reads the attributes of queues, and asks tenaq servers and CloudWatch for more.
type sqsSource struct {
	client *cli.Client
	refs   []cli.QueueRef // that are named; empty for all with the prefix
	lots   []cli.QueueRef // parking lots that are named, which are watched besides
	prefix string
	limit  int
	said   func(format string, args ...any)

	v1         *cli.V1Client    // a server of ours; nil for others
	cloudWatch *cloudWatch      // nil when it is not asked
	dead       map[string]bool  // of the queues that are named, by URL
	redriven   []string         // names of dead-letter queues and parking lots in the configuration
	notes      map[string]error // what has been said, by what it is about
}

// source finds out what answers at the endpoint, and finds the queues.
func (cfg *Config) source(ctx context.Context, c *cli.Client) (*sqsSource, error) {
	s := &sqsSource{
		client: c, prefix: cfg.Prefix, limit: cfg.Limit, redriven: cfg.Redriven,
		dead: map[string]bool{}, notes: map[string]error{},
	}
	var err error
	if len(cfg.Queues) > 0 {
		if s.refs, _, err = doctor.QueueRefs(ctx, c, cfg.Queues, "", cfg.Limit); err != nil {
			return nil, err
		}
	}
	if len(cfg.Parking) > 0 {
		if s.lots, _, err = doctor.QueueRefs(ctx, c, cfg.Parking, "", cfg.Limit); err != nil {
			return nil, err
		}
	}
	d := &doctor.Doctor{Endpoint: c.Endpoint, Region: c.Options().Region,
		HTTP: &http.Client{Timeout: c.Timeout}}
	p := d.Probe(ctx)
	if p.Err != nil {
		return nil, p.Err
	}
	if p.Kind == doctor.KindTenaq {
		s.v1 = &cli.V1Client{C: c, HTTP: d.HTTP, Lack: doctor.LacksAges}
	}
	if !cfg.NoCloudWatch {
		if s.cloudWatch, err = cfg.connectCloudWatch(ctx, c, s.v1 == nil); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *sqsSource) where() string { return s.client.Endpoint.String() }

func (s *sqsSource) isParkingLot(queue string) bool {
	return monitor.ParkingName(queue) || slices.ContainsFunc(s.lots, func(l cli.QueueRef) bool {
		return l.Name == queue
	})
}

// commands adds the name of the queue and its endpoint. Only a tenaq server shows messages without
// delivering them, so elsewhere there is no peek.
func (s *sqsSource) commands(templates []string, queue string) []string {
	var list []string
	for _, c := range templates {
		switch {
		case strings.HasPrefix(c, "tenaq peek ") && s.v1 == nil:
			c = "tenaq queue show QUEUE"
		case strings.HasPrefix(c, "tenaq redrive plan ") &&
			s.isParkingLot(queue): // no redriver plans for it
			c = "tenaq redrive parked list QUEUE"
		}
		if text := strings.ReplaceAll(c, "QUEUE", queue) + s.flags(c); !slices.Contains(list,
			text) {
			list = append(list, text)
		}
	}
	return list
}

// flags lead a command about a queue to the endpoint, if a flag named the endpoint.
func (s *sqsSource) flags(command string) string {
	switch e := s.client.Endpoint; {
	case !strings.Contains(command, "QUEUE"):
		return ""
	case e.Origin == "--aws":
		return " --aws"
	case e.Origin == "--endpoint-url" && e.IsAmazon():
		return " --endpoint-url " + cli.Amazon
	case e.Origin == "--endpoint-url":
		return " --endpoint-url " + e.URL
	}
	return ""
}

// queues takes a reading. It reports missing ages or counts once, and goes on without them.
func (s *sqsSource) queues(ctx context.Context) ([]*watchedQueue, error) {
	refs := s.refs
	if len(refs) == 0 {
		all, more, err := doctor.QueueRefs(ctx, s.client, nil, s.prefix, s.limit)
		if err != nil {
			return nil, err
		}
		if more {
			s.say("limit", errMoreQueues)
		}
		refs = all
	}
	for _, lot := range s.lots {
		if !slices.Contains(refs, lot) {
			refs = append(slices.Clip(refs), lot)
		}
	}
	read, err := doctor.Examine(ctx, s.client, refs)
	if err != nil {
		return nil, err
	}
	var queues []*watchedQueue
	add := func(q *doctor.Examined) {
		if slices.ContainsFunc(queues, func(w *watchedQueue) bool { return w.name == q.Name }) {
			return
		}
		queues = append(queues, newWatchedQueue(q, q.IsDead || s.isDead(ctx, q)))
	}
	for _, q := range read {
		if q.Refused != nil {
			s.say(q.Name, q.Refused)
			continue
		}
		add(q)
		if len(s.refs) > 0 && q.Dead != nil {
			add(q.Dead)
		}
	}
	if s.v1 != nil {
		s.say("ages", s.addAges(ctx, queues))
	}
	if s.cloudWatch != nil {
		s.say("CloudWatch", s.cloudWatch.add(ctx, time.Now(), queues))
	}
	return queues, nil
}

func newWatchedQueue(q *doctor.Examined, dead bool) *watchedQueue {
	w := &watchedQueue{name: q.Name, dead: dead}
	w.visible, w.hidden, w.delayed = cli.CountsOf(q.Attributes)
	return w
}

// isDead reports whether a queue holds dead letters although no queue that was read names it. It
// asks once whether other queues name it.
func (s *sqsSource) isDead(ctx context.Context, q *doctor.Examined) bool {
	if monitor.DeadName(q.Name) || slices.Contains(s.lots, q.QueueRef) ||
		slices.Contains(s.redriven, q.Name) {
		return true
	}
	if len(s.refs) == 0 {
		return false
	}
	is, known := s.dead[q.URL]
	if !known {
		is = doctor.HasSources(ctx, s.client, q.URL)
		s.dead[q.URL] = is
	}
	return is
}

// addAges asks a tenaq server. The age of an empty queue is 0.
func (s *sqsSource) addAges(ctx context.Context, queues []*watchedQueue) error {
	ages := map[string]time.Duration{}
	if len(s.refs) == 0 {
		if err := doctor.Ages(ctx, s.v1, s.prefix, s.limit, ages); err != nil {
			return err
		}
	}
	for _, q := range queues {
		if len(s.refs) > 0 {
			if err := doctor.Ages(ctx, s.v1, q.name, 1, ages); err != nil {
				return err
			}
		}
		age := ages[q.name]
		q.age = &age
	}
	return nil
}

// say reports a failure once, until it is over.
func (s *sqsSource) say(about string, err error) {
	if err == nil {
		delete(s.notes, about)
		return
	}
	if s.notes[about] == nil {
		s.said("%s: %s; other checks continue", about, cli.OneLine(err.Error()))
	}
	s.notes[about] = err
}
