// Package wire connects the nodes of a cluster. Each node listens on one port for the connections
// of all the others: Raft with its copies, forwarded requests, and what nodes ask each other.
//
// It guarantees:
//
//   - Both ends of a connection hold a certificate that the cluster's own authority signed, over
//     TLS 1.3. Without certificates a node listens on loopback addresses and connects to them, and
//     to no others, and both ends know the same token.
//   - A stranger cannot occupy the port. A connection that has not proved itself within 5 seconds
//     is closed. At most 512 are proving themselves at once: one more closes the earliest.
//   - A connection that Dial returns was accepted by the other node, for the requested kind.
//
// It does not identify the node at the other end: any holder of a certificate is a node of the
// cluster, and any node is trusted with everything.
//
// A connection begins with what proves both ends, then the preface of the dialer: "tenaq", a
// version, the kind, and the SHA-256 of the token, 39 bytes in all. The other end answers it with
// its version, one byte, or closes.
package wire

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A Kind is what a connection is used for.
type Kind byte

const (
	Raft    Kind = 'r'
	HTTP    Kind = 'h' // forwarded requests
	Control Kind = 'c' // requests between nodes, over HTTP too
)

const (
	version     = 1
	handshake   = 5 * time.Second // at most, for the proof and the preface
	strangers   = 512             // connections at once that have not proved themselves
	prefaceSize = len("tenaq") + 2 + sha256.Size
	backlog     = 16               // accepted connections of a kind that wait for Accept
	keepAlive   = 15 * time.Second // a vanished peer is noticed within a minute
)

// ErrRefused reports that the address answers but does not accept this node as one of its cluster.
var ErrRefused = errors.New("the nodes do not accept each other")

// Config configures a Port.
type Config struct {
	// Listen is the address to listen on, as host:port. Port 0 picks one.
	Listen string

	// Identity proves this node to others. Without one, Token does, and Listen must be a loopback
	// address.
	Identity *Identity

	// Token is the secret that nodes without certificates share.
	Token string

	// Refused is called for each connection of another end that did not come about, with why: a
	// stranger, a node of another cluster, or, with a nil address, a failure to accept any. It may
	// be called by several goroutines at once; nil ignores them.
	Refused func(from net.Addr, err error)

	handshake time.Duration // how long a proof may take; tests shorten it
}

// A Port is where a node listens for other nodes, and how it calls them. It is safe for concurrent
// use.
type Port struct {
	cfg      Config
	listener net.Listener
	token    [sha256.Size]byte
	kinds    map[Kind]*kindListener
	ctx      context.Context // until Close
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu       sync.Mutex
	unproved []net.Conn // connections of strangers, the earliest first
}

// Listen opens the port. Errors say what is wrong with the configuration, or why the address cannot
// be used.
func Listen(cfg Config) (*Port, error) {
	if cfg.Refused == nil {
		cfg.Refused = func(net.Addr, error) {}
	}
	cfg.handshake = cmp.Or(cfg.handshake, handshake)
	p := &Port{cfg: cfg, token: sha256.Sum256([]byte(cfg.Token)),
		kinds: make(map[Kind]*kindListener)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if cfg.Identity == nil {
		if cfg.Token == "" {
			return nil, errors.New("a node needs a certificate or a token: create an authority and certificates")
		}
		if err := loopbackOnly(cfg.Listen); err != nil {
			return nil, err
		}
	}
	var err error
	listen := net.ListenConfig{KeepAlive: keepAlive}
	if p.listener, err = listen.Listen(p.ctx, "tcp", cfg.Listen); err != nil {
		return nil, fmt.Errorf("listen for other nodes: %w", err)
	}
	for _, k := range []Kind{Raft, HTTP, Control} {
		p.kinds[k] = &kindListener{port: p, arrived: make(chan net.Conn, backlog),
			closed: make(chan struct{})}
	}
	p.running.Go(p.accept)
	return p, nil
}

func loopbackOnly(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("the address for other nodes: %w", err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return fmt.Errorf("%s can be reached from other machines, and a token alone protects loopback addresses "+
			"only: create an authority and certificates", address)
	}
	return nil
}

// Addr is the address of the port.
func (p *Port) Addr() net.Addr { return p.listener.Addr() }

// Listener returns the connections of one kind. Closing it refuses that kind alone.
func (p *Port) Listener(k Kind) net.Listener { return p.kinds[k] }

// Close ends the port with its listeners. Connections that were accepted stay open.
func (p *Port) Close() error {
	p.cancel()
	err := p.listener.Close()
	for _, k := range p.kinds {
		_ = k.Close()
	}
	p.running.Wait()
	return err
}

func (p *Port) accept() {
	pause := time.Duration(0)
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			p.cfg.Refused(nil, err)
			select {
			case <-time.After(pause):
			case <-p.ctx.Done():
				return
			}
			continue
		}
		pause = 0
		p.meet(conn)
		p.running.Go(func() {
			if err := p.welcome(conn); err != nil {
				p.cfg.Refused(conn.RemoteAddr(), err)
			}
		})
	}
}

var errCrowd = fmt.Errorf("%d later connections are waiting for authentication too", strangers)

// meet notes the connection of a stranger. A node proves itself in milliseconds, so of too many
// strangers the earliest is the least likely to be one.
func (p *Port) meet(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.unproved) == strangers {
		_ = p.unproved[0].Close()
		p.unproved = slices.Delete(p.unproved, 0, 1)
	}
	p.unproved = append(p.unproved, conn)
}

// dismiss forgets a stranger. It is false for one whose connection meet has closed.
func (p *Port) dismiss(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.unproved, conn)
	if i >= 0 {
		p.unproved = slices.Delete(p.unproved, i, i+1)
	}
	return i >= 0
}

// welcome has the other end prove itself and hands the connection to its kind.
func (p *Port) welcome(plain net.Conn) (err error) {
	stop := context.AfterFunc(p.ctx, func() { _ = plain.Close() })
	defer func() {
		if !stop() || err != nil {
			_ = plain.Close()
		}
	}()
	kind, conn, err := p.prove(plain)
	if !p.dismiss(plain) {
		return errCrowd
	}
	if err != nil {
		return err
	}
	return p.kinds[kind].hand(conn)
}

// prove has both ends prove themselves, and returns the connection with what protects it.
func (p *Port) prove(plain net.Conn) (kind Kind, conn net.Conn, err error) {
	conn = plain
	if err := plain.SetDeadline(time.Now().Add(p.cfg.handshake)); err != nil {
		return 0, nil, err
	}
	if p.cfg.Identity != nil {
		conn = tls.Server(plain, p.cfg.Identity.server())
	}
	var preface [prefaceSize]byte
	if _, err := io.ReadFull(conn, preface[:]); err != nil {
		return 0, nil, err
	}
	if kind, err = p.check(preface); err != nil {
		return 0, nil, err
	}
	if _, err := conn.Write([]byte{version}); err != nil {
		return 0, nil, err
	}
	return kind, conn, conn.SetDeadline(time.Time{})
}

func (p *Port) preface(k Kind) []byte {
	return append(append([]byte("tenaq"), version, byte(k)), p.token[:]...)
}

func (p *Port) check(preface [prefaceSize]byte) (Kind, error) {
	name, rest := string(preface[:5]), preface[5:]
	kind := Kind(rest[1])
	switch {
	case name != "tenaq":
		return 0, errors.New("it is not a node of tenaq")
	case rest[0] != version:
		return 0, fmt.Errorf("it speaks version %d, this node version %d", rest[0], version)
	case subtle.ConstantTimeCompare(rest[2:], p.token[:]) != 1:
		return 0, errors.New("its token is not that of this cluster")
	case p.kinds[kind] == nil:
		return 0, fmt.Errorf("it asks for the unknown kind %q", kind)
	}
	return kind, nil
}

// Dial opens a connection of a kind to the node at an address. It takes at most 5 seconds.
// errors.Is(err, ErrRefused) says that the address answered, but as no node of this cluster.
func (p *Port) Dial(ctx context.Context, k Kind, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.handshake)
	defer cancel()
	dialer := net.Dialer{KeepAlive: keepAlive}
	if p.cfg.Identity == nil { // the token is sent in the clear
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			return loopbackOnly(address)
		}
	}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect to the node at %s: %w", address, err)
	}
	if p.cfg.Identity != nil {
		secure, err := p.cfg.Identity.client()
		if err != nil {
			_ = conn.Close()
			return nil, err
		}
		conn = tls.Client(conn, secure)
	}
	if err := p.introduce(ctx, k, conn); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connect to the node at %s: %w", address, err)
	}
	return conn, nil
}

func (p *Port) introduce(ctx context.Context, k Kind, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if secure, ok := conn.(*tls.Conn); ok {
		switch err := secure.HandshakeContext(ctx); {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("%w: %w", ErrRefused, explained(err))
		}
	}
	_, err := conn.Write(p.preface(k))
	var answer [1]byte
	if err == nil {
		_, err = io.ReadFull(conn, answer[:])
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w (%w): compare tokens, certificates and versions; the log of that node says which differs", ErrRefused, err)
	}
	if !stop() {
		return ctx.Err()
	}
	return nil
}

// explained says what a failed handshake means, and what to do.
func explained(err error) error {
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return errors.New("the other node does not use TLS: use the address of its --cluster-listen, not that for clients, and give all nodes certificates")
	}
	if bad, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		if invalid, ok := errors.AsType[x509.CertificateInvalidError](bad); ok &&
			invalid.Reason == x509.Expired {
			return errors.New("the certificate of the other node has expired or is not valid yet: renew it with \"tenaq cluster ca node\", and compare the clocks")
		}
		return errors.New("the certificate of the other node was signed by another authority: make the certificates of all nodes with the same one")
	}
	return fmt.Errorf("%w: compare the certificates of both nodes, which the same authority must have signed", err)
}

// A kindListener hands out the connections of one kind.
type kindListener struct {
	port    *Port
	arrived chan net.Conn
	closed  chan struct{}
	close   sync.Once
}

func (l *kindListener) hand(conn net.Conn) error {
	select {
	case <-l.closed:
		return net.ErrClosed
	case l.arrived <- conn:
	}
	select {
	case <-l.closed: // perhaps before conn was there to be drained
		l.drain()
	default:
	}
	return nil
}

func (l *kindListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	case conn := <-l.arrived:
		return conn, nil
	}
}

func (l *kindListener) Addr() net.Addr { return l.port.Addr() }

func (l *kindListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	l.drain()
	return nil
}

func (l *kindListener) drain() {
	for {
		select {
		case conn := <-l.arrived:
			_ = conn.Close()
		default:
			return
		}
	}
}
