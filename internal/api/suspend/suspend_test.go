package suspend

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// never is a waiter whose answer is on its way.
type never struct{}

func (never) Abandon() bool { return false }

// A stop that cuts clients off does not miss a connection that is being taken over.
func TestCutWhileTaking(t *testing.T) {
	s := New(Config{})
	s.cut = true
	client, server := net.Pipe()
	c := new(Conn)
	s.took(c, server, nil)
	if _, err := client.Read(make([]byte, 1)); err != io.EOF || !c.gone {
		t.Errorf("got %v, gone %v, want the connection closed", err, c.gone)
	}
}

// The context of an answer has ended when its client left before it began.
func TestClientGoneBeforeAnswer(t *testing.T) {
	s := New(Config{})
	_, server := net.Pipe()
	c := &Conn{set: s, conn: server, gone: true}
	s.enter(c)
	c.Answer(func(ctx context.Context, _ http.ResponseWriter) bool {
		if ctx.Err() == nil {
			t.Error("the answer does not know that the client has left")
		}
		return false
	})
	if got := s.Len(); got != 0 {
		t.Errorf("%d connections are suspended, want none", got)
	}
}

// A lateConn has written everything a second before it says so.
type lateConn struct{ net.Conn }

func (c lateConn) Write(b []byte) (int, error) {
	defer time.Sleep(time.Second)
	return c.Conn.Write(b)
}

// A client that leaves with the end of its answer leaves nothing behind.
func TestClientGoneWithAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		client, server := net.Pipe()
		c := &Conn{set: s, conn: lateConn{server}}
		s.enter(c)
		go c.Answer(func(_ context.Context, w http.ResponseWriter) bool {
			w.WriteHeader(http.StatusNoContent)
			w.Write(nil)
			return true
		})
		c.Watch(never{})
		if resp, err := http.ReadResponse(bufio.NewReader(client), nil); err != nil || resp.StatusCode != http.StatusNoContent {
			t.Errorf("got %v, %v, want an answer", resp, err)
		}
		client.Close()
		time.Sleep(2 * time.Second)
		if got := s.Len(); got != 0 {
			t.Errorf("%d connections are suspended, want none", got)
		}
	})
}

// The time for an answer does not bound what TLS writes while the next request is awaited.
func TestTimeToWriteWhileIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		client, server := net.Pipe()
		c := &Conn{set: s, conn: server}
		s.enter(c)
		go c.Answer(func(_ context.Context, w http.ResponseWriter) bool {
			w.WriteHeader(http.StatusNoContent)
			w.Write(nil)
			return true
		})
		c.Watch(never{})
		r := bufio.NewReader(client)
		if _, err := http.ReadResponse(r, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		go io.WriteString(server, "a key")
		if got, err := r.Peek(len("a key")); err != nil {
			t.Errorf("a minute after the answer, got %q, %v, want a key", got, err)
		}
		client.Close()
	})
}
