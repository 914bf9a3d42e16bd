package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"tenaq/internal/api/cloudwatch"
	"tenaq/internal/api/handle"
	"tenaq/internal/api/sqs"
	"tenaq/internal/api/v1"
	"tenaq/internal/broker"
	"tenaq/internal/door/auth"
	"tenaq/internal/engine"
	"tenaq/internal/kv"
	"tenaq/internal/observe/monitor"
)

// A service is what a server has while it writes the store: the broker, the alarms, and the APIs on
// top of them. A single server writes for as long as it runs. A node of a cluster does while it
// leads, with a new service for each term.
type service struct {
	server     *Server
	broker     *broker.Broker
	alarms     *monitor.Monitor
	api        *sqs.Handler
	v1         *v1.Handler
	cloudwatch http.Handler

	stopWriting, stopWatching func()
	written                   chan struct{} // closed when the broker has ended
	err                       error         // with which it has, once written is closed
	watching                  sync.WaitGroup
}

// newService makes this server the writer of a store. A new store has no key that seals receipt
// handles before its first writer draws one. Change, if set, changes the configuration of the
// broker.
func (s *Server) newService(store kv.Store, change func(*broker.Config)) (*service, error) {
	key, err := sealKey(store)
	if err != nil {
		return nil, err
	}
	s.door.SetTokenSecret(tokenSecret(key))
	cfg := broker.Config{
		Store: store,
		Engine: engine.Config{
			Region:        s.cfg.Region,
			InFlightMax:   int64(s.cfg.InFlightMax),
			PurgeInterval: s.cfg.PurgeInterval.Milliseconds(),
			RecreateDelay: s.cfg.RecreateDelay.Milliseconds(),
			Window:        s.cfg.Window,
			Tally:         &s.tally,
			Fault: func(sentence string) {
				s.cfg.Fatal(&Error{ErrDamaged, errors.New(sentence)})
			},
		},
		TimeScale: s.cfg.TimeScale,
		Grace:     s.cfg.VisibilityGrace,
	}
	if change != nil {
		change(&cfg)
	}
	v := &service{server: s, written: make(chan struct{})}
	if v.broker, err = broker.New(cfg); err != nil {
		return nil, &Error{ErrStorage, err}
	}
	if until := v.broker.ExpiryPausedUntil(); !until.IsZero() {
		s.cfg.Logger.Warn("expiry is paused: the clock jumped, or the server was down for more than an hour", "until", until.UTC())
	}
	if v.alarms, err = s.newMonitor(v.broker); err != nil {
		return nil, err
	}
	policies, sealer := auth.NewPolicies(v.broker, s.cfg.Logger), handle.New(key)
	v.api = sqs.New(sqs.Config{
		Broker:    v.broker,
		Sealer:    sealer,
		Logger:    s.cfg.Logger,
		Door:      s.door,
		Policies:  policies,
		Intake:    s.intake,
		PublicURL: s.cfg.PublicURL,
		Rejoin:    s.rejoin,
		IdleMax:   idleMax,
	})
	var control v1.Control
	if s.node != nil {
		control = s.node
	}
	v.v1 = v1.New(v1.Config{
		Broker:    v.broker,
		Door:      s.door,
		Policies:  policies,
		Intake:    s.intake,
		Logger:    s.cfg.Logger,
		Sealer:    sealer,
		PublicURL: s.cfg.PublicURL,
		Version:   s.cfg.Version,
		Actions:   Actions(),
		Monitor:   v.alarms,
		Redrivers: s.cfg.Redrivers,
		Stores:    s.cfg.Stores,
		Settings:  s.cfg.Settings,
		Status:    s.status,
		Backup:    s.backups.begin,
		Control:   control,
		SQS:       v.api.Do,
	})
	v.cloudwatch = cloudwatch.New(cloudwatch.Config{Monitor: v.alarms, Door: s.door,
		Region: s.cfg.Region, Logger: s.cfg.Logger})
	return v, nil
}

func (s *Server) newMonitor(b *broker.Broker) (*monitor.Monitor, error) {
	keeper, troubles := monitor.File(s.cfg.DataDir), (func() []monitor.Trouble)(nil)
	if s.node != nil {
		keeper, troubles = converted{monitor.Rows(b), keeper}, s.troubles
	}
	m, err := monitor.New(monitor.Config{
		Queues:            b,
		Account:           s.cfg.Account,
		Keeper:            keeper,
		Troubles:          troubles,
		Minute:            s.cfg.AlarmMinute,
		DeadLetterQueues:  s.cfg.DeadLetterQueues,
		InFlightMax:       s.cfg.InFlightMax,
		Actions:           s.cfg.Actions,
		ShippedActions:    s.cfg.AlarmActions,
		NoShipped:         s.cfg.NoShippedAlarms,
		LogUnknownActions: s.cfg.AlarmActionsUnknown == "log",
		Repeat:            s.cfg.AlarmRepeat,
		Pages:             s.cfg.AlarmPages,
		Endpoint:          s.endpoint(),
		Logger:            s.cfg.Logger,
	})
	if err != nil {
		return nil, &Error{ErrStorage,
			fmt.Errorf("%w: check the disk under %s, and start again", err, s.cfg.DataDir)}
	}
	return m, nil
}

// start starts the writer.
func (v *service) start() {
	ctx, cancel := context.WithCancel(context.Background())
	v.stopWriting = cancel
	go func() {
		defer close(v.written)
		v.err = v.broker.Run(ctx)
	}()
}

// open lets requests in and starts the alarms. What else works only while this server writes the
// store ends with ctx, or with stop if that is first.
func (v *service) open(ctx context.Context) {
	s := v.server
	s.guardDisk(v)
	s.writer.Store(v)
	watching, stopWatching := context.WithCancel(context.Background())
	v.watching.Go(func() { v.alarms.Run(watching) })
	ctx, cancel := context.WithCancel(ctx)
	if s.cfg.Writing != nil {
		v.watching.Go(func() { s.cfg.Writing(ctx, s) })
	}
	v.stopWatching = func() { cancel(); stopWatching() }
}

// drain answers every waiting poll, and lets no poll wait from now on. [POLL-11]
func (v *service) drain() {
	v.api.Drain()
	v.v1.Drain()
	v.broker.Drain()
}

// stop ends the alarms and the writer, which was started. It returns with the error of the writer
// when everything that was taken up is answered and on disk.
func (v *service) stop() error {
	if v.stopWatching != nil {
		v.stopWatching()
		v.watching.Wait()
	}
	v.stopWriting()
	<-v.written
	return v.err
}

// ServeHTTP answers a request of any API but STS, which needs no store.
func (v *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case cloudwatch.Is(r):
		v.cloudwatch.ServeHTTP(w, r)
	case v1.Is(r):
		v.v1.ServeHTTP(w, r)
	default:
		v.api.ServeHTTP(w, r)
	}
}
