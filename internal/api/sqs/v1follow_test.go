package sqs

import (
	"net/http"
	"testing"
)

// A send that asks for it is answered with a mark, by which the message can be followed; others are
// answered as ever. [PEEK-9]
func TestV1Follow(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		conn := w.listener.dial()
		defer conn.Close()
		ask := func(method, text string) (*http.Response, string) {
			t.Helper()
			_, resp, body, err := exchange(conn, method, text)
			if err != nil {
				t.Fatal(err)
			}
			return resp, body
		}
		get := func(path string) (int, string) {
			t.Helper()
			resp, body := ask("GET", "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
			return resp.StatusCode, body
		}
		ask("POST", request("AmazonSQS.CreateQueue", `{"QueueName":"q"}`))
		if resp, _ := ask("POST", request("AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"hello"}`)); resp.Header.Get(markHeader) != "" {
			t.Error("a usual answer has a mark")
		}
		resp, _ := ask("POST", request("AmazonSQS.SendMessage", `{"QueueUrl":"q","MessageBody":"hello","DelaySeconds":9}`, followHeader, "1"))
		mark := resp.Header.Get(markHeader)
		if status, body := get("/v1/queues/q/fate?mark=" + mark); status != http.StatusOK || body != `{"state":"delayed"}`+"\n" {
			t.Errorf("got %d %s", status, body)
		}
		ask("POST", request("AmazonSQS.PurgeQueue", `{"QueueUrl":"q"}`))
		if status, body := get("/v1/queues/q/fate?mark=" + mark); status != http.StatusOK || body != `{"state":"unknown"}`+"\n" {
			t.Errorf("after a purge: got %d %s", status, body)
		}
		for path, want := range map[string]int{
			"/v1/queues/q/fate?mark=x": http.StatusBadRequest, "/v1/queues/q/fate": http.StatusBadRequest,
			"/v1/queues/q/fate?mark=" + mark + "&state=x": http.StatusBadRequest, "/v1/queues/none/fate?mark=" + mark: http.StatusNotFound,
		} {
			if status, body := get(path); status != want {
				t.Errorf("%s: got %d %s, want %d", path, status, body, want)
			}
		}
	})
}
