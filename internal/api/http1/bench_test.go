package http1

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// BenchmarkEmptyHandler is a request of the size of a small send and its answer on a connection of
// loopback, by net/http and by the loop. The times are those of client, kernel and server together.
func BenchmarkEmptyHandler(b *testing.B) {
	answer := []byte(`{"MD5OfMessageBody":"5d41402abc4b2a76b9719d911017c592","MessageId":"5b1b1a4a-7c4e-4a87-a8c8-6f0e0ac0f642"}`)
	empty := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		header := w.Header()
		header["x-amzn-RequestId"] = []string{"0e0ac0f6-7c4e-4a87-a8c8-6f5b1b1a4a42"}
		header["Content-Type"] = []string{"application/x-amz-json-1.0"}
		header["Content-Length"] = []string{strconv.Itoa(len(answer))}
		w.Write(answer)
	})
	request := []byte(post("", strings.Repeat("b", 150), "Content-Type: application/x-amz-json-1.0", "X-Amz-Target: AmazonSQS.SendMessage"))
	for _, name := range []string{"net", "loop"} {
		b.Run(name, func(b *testing.B) {
			var s server = limits(empty, io.Discard)
			if name == "loop" {
				s = New(limits(empty, io.Discard), slog.New(slog.DiscardHandler))
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			go s.Serve(l)
			defer s.Close()
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				conn, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					b.Error(err)
					return
				}
				defer conn.Close()
				r := bufio.NewReader(conn)
				for pb.Next() {
					conn.Write(request)
					for line := []byte(nil); len(line) != len("\r\n"); { // to the end of the head
						if line, err = r.ReadSlice('\n'); err != nil {
							b.Error(err)
							return
						}
					}
					r.Discard(len(answer))
				}
			})
		})
	}
}
