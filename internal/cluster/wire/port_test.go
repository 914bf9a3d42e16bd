package wire

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// open opens a port that answers each line of either kind with the kind and the line.
func open(t *testing.T, cfg Config) *Port {
	t.Helper()
	cfg.Listen = "127.0.0.1:0"
	p, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	for _, k := range []Kind{Raft, HTTP} {
		go func() {
			for {
				conn, err := p.Listener(k).Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					for lines := bufio.NewScanner(conn); lines.Scan(); {
						_, _ = io.WriteString(conn, string(k)+" "+lines.Text()+"\n")
					}
				}()
			}
		}()
	}
	return p
}

// ask dials, sends a line and returns the answer.
func ask(t *testing.T, from, to *Port, k Kind) (string, error) {
	t.Helper()
	conn, err := from.Dial(t.Context(), k, to.Addr().String())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

// authority makes an authority, and certificate the identity of a node that it signs.
func authority(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := NewAuthority(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func certificate(t *testing.T, authority string) (dir string, id *Identity) {
	t.Helper()
	dir = t.TempDir()
	if err := NewCertificate(authority, dir); err != nil {
		t.Fatal(err)
	}
	id, err := OpenIdentity(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, id
}

func TestNodesOfOneCluster(t *testing.T) {
	ca := authority(t)
	_, one := certificate(t, ca)
	_, two := certificate(t, ca)
	for name, cfg := range map[string][2]Config{
		"certificates": {{Identity: one}, {Identity: two}},
		"token":        {{Token: "secret"}, {Token: "secret"}},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := open(t, cfg[0]), open(t, cfg[1])
			for kind, want := range map[Kind]string{Raft: "r hello\n", HTTP: "h hello\n"} {
				for _, way := range [][2]*Port{{a, b}, {b, a}, {a, a}} {
					if got, err := ask(t, way[0], way[1], kind); got != want || err != nil {
						t.Errorf("got %q, %v, want %q", got, err, want)
					}
				}
			}
		})
	}
}

// An error names the end at fault and what to do about it.
func TestDialExplains(t *testing.T) {
	_, own := certificate(t, authority(t))
	_, other := certificate(t, authority(t))
	p := open(t, Config{Identity: own})
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	go func() {
		conn, err := plain.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		_, _ = io.Copy(io.Discard, conn)
	}()
	for address, want := range map[string]string{
		plain.Addr().String():                            "use the address of its --cluster-listen",
		open(t, Config{Identity: other}).Addr().String(): "signed by another authority",
	} {
		if _, err := p.Dial(t.Context(), Raft, address); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrRefused and %q", err, want)
		}
	}
	if _, err := OpenIdentity(t.TempDir()); err == nil || !strings.Contains(err.Error(), "tenaq cluster ca node") {
		t.Errorf("a directory without certificates: got %v, want how to make them", err)
	}
}

func TestStrangersAreRefused(t *testing.T) {
	ca := authority(t)
	_, own := certificate(t, ca)
	_, other := certificate(t, authority(t))
	withCertificate, withToken := open(t, Config{Identity: own}), open(t, Config{Token: "secret"})
	for name, tt := range map[string]struct {
		from Config
		to   *Port
	}{
		"certificate of another authority": {Config{Identity: other}, withCertificate},
		"no certificate":                   {Config{Token: "secret"}, withCertificate},
		"another token":                    {Config{Token: "Secret"}, withToken},
		"certificate where a token is due": {Config{Identity: own}, withToken},
		"token beside the certificate":     {Config{Identity: own, Token: "more"}, withCertificate},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ask(t, open(t, tt.from), tt.to, Raft)
			if !errors.Is(err, ErrRefused) ||
				!strings.Contains(err.Error(), tt.to.Addr().String()) {
				t.Errorf("got %v, want ErrRefused and the address", err)
			}
		})
	}
}

func TestPrefaces(t *testing.T) {
	reasons := make(chan error, 1)
	p := open(t, Config{Token: "secret", Refused: func(_ net.Addr, err error) { reasons <- err }})
	right := string(p.preface(Raft))
	for name, tt := range map[string]struct{ preface, want string }{
		"version": {strings.Replace(right, "\x01r", "\x02r", 1), "version 2"},
		"kind":    {strings.Replace(right, "\x01r", "\x01x", 1), "unknown kind"},
		"token":   {right[:20] + strings.Repeat("x", prefaceSize-20), "token"},
		"short":   {right[:20], "EOF"},
		"browser": {"GET / HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n", "not a node"},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", p.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, tt.preface); err != nil {
				t.Fatal(err)
			}
			_ = conn.(*net.TCPConn).CloseWrite()
			if answer, _ := io.ReadAll(conn); len(answer) > 0 {
				t.Errorf("got the answer %q, want none", answer)
			}
			if err := <-reasons; !strings.Contains(err.Error(), tt.want) {
				t.Errorf("refused because of %v, want %q", err, tt.want)
			}
		})
	}
}

// More strangers than may be there say nothing. A node is accepted at once all the same: the
// earliest of them makes room.
func TestSilentStrangers(t *testing.T) {
	reasons := make(chan error, strangers)
	p := open(t, Config{Token: "secret", handshake: time.Hour,
		Refused: func(_ net.Addr, err error) { reasons <- err }})
	var first net.Conn
	for i := range strangers {
		conn, err := net.Dial("tcp", p.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i == 0 {
			first = conn
		}
	}
	node := open(t, Config{Token: "secret", handshake: time.Minute})
	if got, err := ask(t, node, p, HTTP); got != "h hello\n" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if err := <-reasons; err != errCrowd {
		t.Errorf("refused because of %v, want %v", err, errCrowd)
	}
	if n, err := first.Read(make([]byte, 1)); err == nil {
		t.Errorf("the earliest stranger got %d bytes, want the end of its connection", n)
	}
	if got := len(reasons); got > 0 {
		t.Errorf("%d other strangers were refused, want none", got)
	}
}

// A node that is there and says nothing costs a dialer its time, and no more.
func TestDialGivesUp(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, id := certificate(t, authority(t))
	for name, cfg := range map[string]Config{"token": {Token: "t"}, "certificate": {Identity: id}} {
		t.Run(name, func(t *testing.T) {
			cfg.handshake = 50 * time.Millisecond
			p := open(t, cfg)
			if _, err := p.Dial(t.Context(), Raft, silent.Addr().String()); !errors.Is(err,
				context.DeadlineExceeded) {
				t.Errorf("got %v, want the deadline", err)
			}
		})
	}
}

// A token never leaves the machine.
func TestTokenStaysHere(t *testing.T) {
	p := open(t, Config{Token: "secret", handshake: time.Hour})
	_, err := p.Dial(t.Context(), Raft, "192.0.2.1:1")
	if err == nil || !strings.Contains(err.Error(), "other machines") {
		t.Errorf("got %v, want an error that says that the address is on another machine", err)
	}
}

func TestListenRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  Config
		want string
	}{
		"nothing that proves":  {Config{Listen: "127.0.0.1:0"}, "certificate or a token"},
		"token on all":         {Config{Listen: ":0", Token: "t"}, "other machines"},
		"token on an address":  {Config{Listen: "192.0.2.1:0", Token: "t"}, "other machines"},
		"address without port": {Config{Listen: "127.0.0.1", Token: "t"}, "missing port"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Listen(tt.cfg)
			if err == nil {
				_ = p.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestClose(t *testing.T) {
	p, err := Listen(Config{Listen: "127.0.0.1:0", Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	peer := open(t, Config{Token: "t"})
	waiting, err := peer.Dial(t.Context(), Raft, p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	idle, err := net.Dial("tcp", p.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	for name, conn := range map[string]net.Conn{"not accepted yet": waiting,
		"not proved yet": idle} {
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Errorf("a connection that was %s is open after Close", name)
		}
	}
	if _, err := p.Listener(Raft).Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: got %v, want net.ErrClosed", err)
	}
	if _, err := peer.Dial(t.Context(), Raft, p.Addr().String()); err == nil {
		t.Error("a port that was closed answers")
	}
}

// A renewed certificate counts from the next connection on, in both directions.
func TestRenewal(t *testing.T) {
	ca := authority(t)
	_, one := certificate(t, ca)
	dir, two := certificate(t, ca)
	a, b := open(t, Config{Identity: one}), open(t, Config{Identity: two})
	replace := func(authority string) {
		t.Helper()
		for _, name := range []string{authorityFile, certificateFile, keyFile} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := NewCertificate(authority, dir); err != nil {
			t.Fatal(err)
		}
	}
	before, err := two.own()
	if err != nil {
		t.Fatal(err)
	}
	replace(ca)
	conn, err := a.Dial(t.Context(), HTTP, b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if seen := peerOf(conn); seen.Equal(before.Leaf) {
		t.Error("the certificate before the renewal is still shown")
	}
	replace(authority(t))
	for _, way := range [][2]*Port{{a, b}, {b, a}} {
		if _, err := ask(t, way[0], way[1], HTTP); !errors.Is(err, ErrRefused) {
			t.Errorf("with a certificate of another authority: got %v, want ErrRefused", err)
		}
	}
}

// HTTP runs over a port as over any listener.
func TestHTTP(t *testing.T) {
	p, err := Listen(Config{Listen: "127.0.0.1:0", Token: "t"})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Path)
	})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(p.Listener(HTTP)) }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
		return p.Dial(ctx, HTTP, address)
	}}}
	for range 3 {
		res, err := client.Get("http://" + p.Addr().String() + "/status")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if res.Body.Close(); string(body) != "/status" || err != nil {
			t.Errorf("got %q, %v", body, err)
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve: got %v, want net.ErrClosed", err)
	}
	client.CloseIdleConnections()
	_ = server.Close()
}
