// Package server assembles a tenaq server from one Config: the store, the broker, the APIs and the
// admin address.
//
// New opens everything and binds the addresses, so a mistake in the configuration, the directory or
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

	"tenaq/internal/api/http1"
	"tenaq/internal/api/intake"
	"tenaq/internal/api/relay"
	"tenaq/internal/api/v1"
	"tenaq/internal/cluster/node"
	"tenaq/internal/door/auth"
	"tenaq/internal/kv/pebblekv"
	"tenaq/internal/observe/metric"
	"tenaq/internal/observe/tally"
)

// A Server is a server that has its store and its addresses.
type Server struct {
	cfg   Config
	store *pebblekv.Store // nil on a node of a cluster
	disk  *disk
	door  *auth.Door
	tally tally.Queues // what has happened to the queues since the start

	certificate *certificate // nil without TLS
	intake      *intake.Intake
	writer      atomic.Pointer[service] // nil while this server does not write the store

	single  *service       // of a server that is not a node
	node    *node.Node     // nil on a single server
	cluster http.Handler   // of a node, answers about the cluster
	relay   *relay.Handler // of a node, answers while writer is nil

	started     time.Time
	memoryLimit int64 // of the control groups at the start, -1 for none

	listener, adminListener net.Listener
	http, adminHTTP         *http1.Server

	consoleListener net.Listener // nil unless the console has an address of its own
	consoleHTTP     *http1.Server

	handlers sync.WaitGroup // requests of the SQS API that are being answered
	stopping atomic.Bool

	backups *backups
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
	s := &Server{cfg: cfg, started: time.Now(), memoryLimit: metric.MemoryLimit()}
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
	if err := s.openConsole(); err != nil {
		return err
	}
	if err := checkDataDir(s.cfg.DataDir); err != nil {
		return err
	}
	if err := checkKind(s.cfg.DataDir, s.cfg.ClusterListen != ""); err != nil {
		return err
	}
	if err := checkOwner(s.cfg.DataDir,
		append(s.cfg.ConfigFiles, s.cfg.TLSCert, s.cfg.TLSKey)); err != nil {
		return err
	}
	s.door = auth.New(auth.Config{
		Credentials: s.cfg.Credentials,
		Account:     s.cfg.Account,
		Region:      s.cfg.Region,
		Hosts:       s.cfg.hosts(),
		Aliases:     s.cfg.aliases(),

		Sessions:      s.cfg.Console != "off",
		ReadOnlyPages: s.cfg.ConsoleReadOnly,
	})
	s.intake = intake.New(intake.Config{Polls: s.polls})
	s.disk = &disk{
		dir:     s.cfg.DataDir,
		room:    roomOn,
		reserve: s.cfg.DiskReserve,
		ballast: ballastSize,
		logger:  s.cfg.Logger,
	}
	open := s.openStore
	if s.cfg.ClusterListen != "" {
		open = s.openNode
	}
	if err := open(); err != nil {
		return err
	}
	health := v1.Health{
		Silence: s.silence, Trouble: s.Trouble,
		Front: func(w http.ResponseWriter, r *http.Request) {
			s.frontPage(w, r, true)
		},
	}
	if s.cfg.Credentials == nil {
		health.Version = s.cfg.Version // anyone may read the page
	}
	services := s.services()
	s.http = s.newHTTP(s.withHealth(services, v1.LocalStackHealth(health)))
	s.consoleHTTP = s.newHTTP(s.consoleOnly(services))
	health.Metrics = http.HandlerFunc(s.serveMetrics)
	s.adminHTTP = s.newHTTP(s.noWebPages(v1.Admin(health)))
	return nil
}

// openStore opens the store of a single server and makes the server its writer.
func (s *Server) openStore() (err error) {
	options := pebblekv.Options{
		Dir:        s.cfg.DataDir,
		Fatal:      func(err error) { s.cfg.Fatal(storeError(s.cfg.DataDir, err)) },
		AcceptLoss: s.cfg.AcceptLoss,
		Logger:     s.cfg.Logger,
	}
	if s.cfg.store != nil {
		s.cfg.store(&options)
	}
	if s.store, err = pebblekv.Open(options); err != nil {
		return storeError(s.cfg.DataDir, err)
	}
	s.backups = s.newBackups(s.store.Checkpoint, func() ([]byte, error) {
		return storedAlarms(s.cfg.DataDir)
	})
	s.single, err = s.newService(s.store, nil)
	return err
}

// polls is how many receives wait for messages.
func (s *Server) polls() int64 {
	if v := s.writer.Load(); v != nil {
		return v.broker.Metrics().Polls
	}
	return 0
}

// silence is how long ago the last turn of the writer reached the disk.
func (s *Server) silence() time.Duration {
	if v := s.writer.Load(); v != nil {
		return v.broker.Silence()
	}
	return 0
}

// Stuck returns why the server should be restarted, as /livez does; empty when it should not.
func (s *Server) Stuck() string {
	health := v1.Health{Silence: s.silence}
	return health.Stuck()
}

// guardDisk refuses sends while there is too little room for them.
func (s *Server) guardDisk(v *service) {
	v.broker.RefuseSends(s.disk.low() || s.node != nil && s.node.AnyLow())
}

// endpoint is what commands must be given to find this server, empty when they need nothing.
func (s *Server) endpoint() string {
	if url := s.URL(); url != "http://127.0.0.1:9324" {
		return cmp.Or(s.cfg.PublicURL, url)
	}
	return ""
}

// Trouble returns why the server should get no requests; empty when it should.
func (s *Server) Trouble() string {
	switch {
	case s.stopping.Load():
		return "the server is stopping"
	case s.disk.low():
		return "free disk space is below the reserve: free space; only sends are refused"
	case s.node != nil && s.node.LeaderSeen() > leaderless:
		return cmp.Or(s.node.Trouble(), "no node of the cluster leads: see tenaq cluster status")
	}
	return ""
}

// HasWriter reports whether this server writes the store, or knows the node of its cluster that
// does.
func (s *Server) HasWriter() bool {
	return s.writer.Load() != nil || s.node != nil && s.node.LeaderSeen() == 0
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
	s.disk.look()
	if s.node != nil {
		return s.runNode(ctx)
	}
	s.single.start()
	defer func() { _ = s.single.stop(); s.handlers.Wait() }() // no other server writes its store
	if err := s.single.declare(ctx); err != nil {
		return err
	}
	s.single.open(ctx)
	return s.serve(ctx, make(chan error, 3))
}

// serve answers requests until ctx is done, or until an address or what else there is has failed.
func (s *Server) serve(ctx context.Context, failed chan error) error {
	serve := func(h *http1.Server, l net.Listener) {
		if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- fmt.Errorf("serve %s: %w", l.Addr(), err)
		}
	}
	secured := func(l net.Listener) net.Listener {
		if s.certificate != nil {
			return tls.NewListener(l, s.certificate.config())
		}
		return l
	}
	go serve(s.http, secured(s.listener))
	if s.consoleListener != nil {
		go serve(s.consoleHTTP, secured(s.consoleListener))
	}
	if s.adminListener != nil {
		go serve(s.adminHTTP, s.adminListener)
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
			if v := s.writer.Load(); v != nil {
				s.guardDisk(v)
			}
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
	ctx, cancel := context.WithTimeout(context.Background(), drainMax)
	defer cancel()
	v := s.writer.Load()
	if v != nil {
		v.drain()
	}
	if s.node != nil {
		s.relay.Drain()
		if err := s.node.HandOver(ctx); err != nil {
			s.cfg.Logger.Info("leadership not handed over: the other nodes elect a leader", "error", err)
		}
	}
	err := cmp.Or(s.http.Shutdown(ctx), s.consoleHTTP.Shutdown(ctx))
	if err != nil {
		s.consoleHTTP.Close()
		s.http.Close() // suspended polls may be waiting for budget that these requests hold
	}
	if v != nil {
		err = cmp.Or(err, v.api.Shutdown(ctx))
	}
	if err != nil {
		s.cfg.Logger.Warn("closed connections whose requests did not finish in time", "error", err)
	}
	s.adminHTTP.Close()
}

func (s *Server) close() {
	for _, l := range []net.Listener{s.listener, s.adminListener, s.consoleListener} {
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
