// Package server assembles a tenaq server from one Config: the store, the broker, the APIs and the
// admin address.
//
// New opens everything and takes the addresses, so a mistake in the configuration, the directory or
// a port is an error before anything is served. Run serves until its context is done and then
// drains: waiting polls answer empty, requests in progress are answered, and everything is on disk.
//
// It leaves what the APIs do to the packages under api, and flags and files to settings.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"tenaq/internal/api/framing"
	"tenaq/internal/api/handle"
	"tenaq/internal/api/intake"
	"tenaq/internal/api/sqs"
	"tenaq/internal/api/v1"
	"tenaq/internal/broker"
	"tenaq/internal/door/auth"
	"tenaq/internal/engine"
	"tenaq/internal/kv"
	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/observe/monitor"
)

// A Server is a server that has its store and its addresses.
type Server struct {
	cfg    Config
	store  kv.Store
	disks  *pebblekv.Store // the same, for what it can do besides
	broker *broker.Broker
	alarms *monitor.Monitor
	disk   *disk
	door   *auth.Door

	certificate *certificate // nil without TLS
	intake      *intake.Intake
	api         *sqs.Handler
	v1          *v1.Handler

	started time.Time

	listener, adminListener net.Listener
	http, adminHTTP         *http.Server

	handlers sync.WaitGroup // requests of the SQS API that are being answered
	stopping atomic.Bool

	backingUp atomic.Bool // a backup is being read
}

// drainMax is how long a stop waits for requests that are being answered.
const drainMax = 8 * time.Second

// idleMax is how long a connection may wait for its next request.
const idleMax = 2 * time.Minute

// New opens a server. Its errors are of type *Error.
func New(cfg Config) (*Server, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, started: time.Now()}
	if err := s.open(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *Server) open() (err error) {
	if s.certificate, err = openCertificate(s.cfg.TLSCert, s.cfg.TLSKey, s.cfg.Logger); err != nil {
		return err
	}
	if s.listener, err = net.Listen("tcp", s.cfg.Listen); err != nil {
		return listenError("listen", s.cfg.Listen, err)
	}
	if s.cfg.AdminListen != "off" {
		if s.adminListener, err = net.Listen("tcp", s.cfg.AdminListen); err != nil {
			return listenError("admin-listen", s.cfg.AdminListen, err)
		}
	}
	if err := checkDataDir(s.cfg.DataDir); err != nil {
		return err
	}
	if err := checkOwner(s.cfg.DataDir,
		append(s.cfg.ConfigFiles, s.cfg.TLSCert, s.cfg.TLSKey)); err != nil {
		return err
	}
	options := pebblekv.Options{
		Dir:        s.cfg.DataDir,
		Fatal:      func(err error) { s.cfg.Fatal(storeError(s.cfg.DataDir, err)) },
		AcceptLoss: s.cfg.AcceptLoss,
		Logger:     s.cfg.Logger,
	}
	if s.cfg.store != nil {
		s.cfg.store(&options)
	}
	store, err := pebblekv.Open(options)
	if err != nil {
		return storeError(s.cfg.DataDir, err)
	}
	s.store, s.disks = store, store
	key, err := s.lead()
	if err != nil {
		return err
	}
	if until := s.broker.HeldAtStart(); !until.IsZero() {
		s.cfg.Logger.Warn("expiry is paused: the clock jumped, or the server was down for more than an hour", "until", until.UTC())
	}
	if s.alarms, err = s.newMonitor(); err != nil {
		return err
	}
	s.disk = &disk{
		dir:     s.cfg.DataDir,
		room:    roomOn,
		reserve: s.cfg.DiskReserve,
		ballast: ballastSize,
		refuse:  s.broker.RefuseSends,
		logger:  s.cfg.Logger,
	}
	s.door = auth.New(auth.Config{
		Credentials: s.cfg.Credentials,
		Account:     s.cfg.Account,
		Region:      s.cfg.Region,
		Hosts:       s.cfg.hosts(),
		Aliases:     s.cfg.aliases(),
	})
	policies := auth.NewPolicies(s.broker, s.cfg.Logger)
	s.intake = intake.New(intake.Config{Polls: func() int64 { return s.broker.Metrics().Polls }})
	s.api = sqs.New(sqs.Config{
		Broker:    s.broker,
		Sealer:    handle.New(key),
		Logger:    s.cfg.Logger,
		Door:      s.door,
		Policies:  policies,
		Intake:    s.intake,
		PublicURL: s.cfg.PublicURL,
		Rejoin:    s.rejoin,
		IdleMax:   idleMax,
	})
	s.v1 = v1.New(v1.Config{
		Broker:    s.broker,
		Door:      s.door,
		Policies:  policies,
		Intake:    s.intake,
		Logger:    s.cfg.Logger,
		PublicURL: s.cfg.PublicURL,
		Monitor:   s.alarms,
		Backup:    s.backup,
	})
	health := v1.Health{
		Silence: s.broker.Silence, Trouble: s.trouble,
		Front: func(w http.ResponseWriter, r *http.Request) {
			s.frontPage(w, r, true)
		},
	}
	if s.cfg.Credentials == nil {
		health.Version = s.cfg.Version // anyone may read the page
	}
	s.http = s.newHTTP(s.withHealth(s.services(), v1.LocalStackHealth(health)))
	health.Metrics = http.HandlerFunc(s.serveMetrics)
	s.adminHTTP = s.newHTTP(s.noWebPages(v1.Admin(health)))
	return nil
}

// lead makes this server the writer of its store: it starts the broker, and returns the key that
// seals receipt handles. A new store has no key before its first writer draws one.
func (s *Server) lead() (key []byte, err error) {
	if key, err = sealKey(s.store); err != nil {
		return nil, err
	}
	s.broker, err = broker.New(broker.Config{
		Store: s.store,
		Engine: engine.Config{
			Region:        s.cfg.Region,
			InFlightMax:   int64(s.cfg.InFlightMax),
			PurgeInterval: s.cfg.PurgeInterval.Milliseconds(),
			RecreateDelay: s.cfg.RecreateDelay.Milliseconds(),
			Window:        s.cfg.Window,
			Fault: func(sentence string) {
				s.cfg.Fatal(&Error{ErrDamaged, errors.New(sentence)})
			},
		},
		TimeScale: s.cfg.TimeScale,
		Grace:     s.cfg.VisibilityGrace,
	})
	if err != nil {
		return nil, &Error{ErrStorage, err}
	}
	return key, nil
}

func (s *Server) newMonitor() (*monitor.Monitor, error) {
	m, err := monitor.New(monitor.Config{
		Queues:            s.broker,
		Account:           s.cfg.Account,
		Dir:               s.cfg.DataDir,
		Minute:            s.cfg.AlarmMinute,
		DeadLetterQueues:  s.cfg.DeadLetterQueues,
		InFlightMax:       s.cfg.InFlightMax,
		Actions:           s.cfg.Actions,
		ShippedActions:    s.cfg.AlarmActions,
		NoShipped:         s.cfg.NoShippedAlarms,
		LogUnknownActions: s.cfg.AlarmActionsUnknown == "log",
		Repeat:            s.cfg.AlarmRepeat,
		Endpoint:          s.endpoint(),
		Logger:            s.cfg.Logger,
	})
	if err != nil {
		return nil, &Error{ErrStorage,
			fmt.Errorf("%w: check the disk under %s, and start again", err, s.cfg.DataDir)}
	}
	return m, nil
}

// endpoint is what commands must be given to find this server, empty when they need nothing.
func (s *Server) endpoint() string {
	if url := s.URL(); url != "http://127.0.0.1:9324" {
		return cmp.Or(s.cfg.PublicURL, url)
	}
	return ""
}

// trouble returns why the server should get no requests; empty when it should.
func (s *Server) trouble() string {
	switch {
	case s.stopping.Load():
		return "the server is stopping"
	case s.disk.low():
		return "free disk space is below the reserve: free space; only sends are refused"
	}
	return ""
}

// Addr is the address of the SQS API.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// AdminAddr is the admin address, empty when there is none.
func (s *Server) AdminAddr() string {
	if s.adminListener == nil {
		return ""
	}
	return s.adminListener.Addr().String()
}

// Run serves until ctx is done, and then stops: it lets waiting polls answer, finishes what was
// taken up, and returns when all of it is on disk.
func (s *Server) Run(ctx context.Context) error {
	defer s.close()
	writing, stopWriting := context.WithCancel(context.Background())
	written := make(chan struct{})
	go func() {
		defer close(written)
		s.broker.Run(writing)
	}()
	defer func() { stopWriting(); <-written; s.handlers.Wait() }()

	if err := s.declare(ctx); err != nil {
		return err
	}
	watching, stopWatching := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() { s.alarms.Run(watching) })
	defer func() { stopWatching(); watch.Wait() }()
	s.disk.look()
	failed := make(chan error, 2)
	serve := func(h *http.Server, l net.Listener) {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve %s: %w", l.Addr(), err)
		}
	}
	listener := s.listener
	if s.certificate != nil {
		listener = tls.NewListener(listener, s.certificate.config())
	}
	go serve(s.http, framing.Listener(listener, s.cfg.Logger))
	if s.adminListener != nil {
		go serve(s.adminHTTP, framing.Listener(s.adminListener, s.cfg.Logger))
	}
	look := time.NewTicker(diskEvery)
	defer look.Stop()
	for {
		select {
		case err := <-failed:
			s.drain() // the other address may still be answering
			return err
		case <-look.C:
			s.disk.look()
			if s.certificate != nil {
				s.certificate.look()
			}
		case <-ctx.Done():
			s.drain()
			return nil
		}
	}
}

// drain ends the serving of requests. [POLL-11, DUR-24]
func (s *Server) drain() {
	s.stopping.Store(true)
	s.api.Drain()
	s.broker.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), drainMax)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		s.http.Close() // suspended polls may be waiting for budget that these requests hold
	}
	if err = cmp.Or(err, s.api.Shutdown(ctx)); err != nil {
		s.cfg.Logger.Warn("closed connections whose requests did not finish in time", "error", err)
	}
	s.adminHTTP.Close()
}

func (s *Server) close() {
	for _, l := range []net.Listener{s.listener, s.adminListener} {
		if l != nil {
			l.Close()
		}
	}
	if s.store != nil {
		if err := s.store.Close(); err != nil {
			s.cfg.Logger.Error("store not closed", "error", err)
		}
	}
}

// exitOnFault ends the process where storage can no longer be trusted.
func exitOnFault(err error) {
	fmt.Fprintf(os.Stderr, "tenaq: %v\n", err)
	if errors.Is(err, ErrDamaged) {
		os.Exit(6)
	}
	os.Exit(7)
}

// orDefault returns what a duration of the Config means: its default when zero, none when negative.
func orDefault[T int64 | time.Duration](v, def T) T { return max(0, cmp.Or(v, def)) }
