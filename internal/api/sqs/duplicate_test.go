package sqs

import (
	"net/http"
	"testing"
)

// Answers about duplicates say so, if the queue has a deduplication window of its own. [EXT-32]
func TestDuplicateHeader(t *testing.T) {
	inBubble(t, settings{}, func(t *testing.T, w *world) {
		conn := w.listener.dial()
		defer conn.Close()
		ask := func(action, body, want string) {
			t.Helper()
			_, resp, text, err := exchange(conn, "POST", request("AmazonSQS."+action, body))
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %v: %s", action, err, text)
			}
			if got := resp.Header.Get(duplicateHeader); got != want {
				t.Errorf("%s %s: got the header %q, want %q", action, body, got, want)
			}
		}
		const dedup = `"MessageAttributes":{"tenaq.dedup-id":{"DataType":"String","StringValue":"d"}}`
		ask("CreateQueue", `{"QueueName":"q","tags":{"tenaq:dedup-window":"7d"}}`, "")
		ask("SendMessage", `{"QueueUrl":"q","MessageBody":"x",`+dedup+`}`, "")
		ask("SendMessage", `{"QueueUrl":"q","MessageBody":"x",`+dedup+`}`, "true")
		ask("SendMessage", `{"QueueUrl":"q","MessageBody":"x"}`, "")
		ask("SendMessageBatch", `{"QueueUrl":"q","Entries":[{"Id":"one","MessageBody":"x",`+dedup+
			`},{"Id":"two","MessageBody":"x"},{"Id":"three","MessageBody":"x",`+dedup+`}]}`, "one,three")

		ask("CreateQueue", `{"QueueName":"f.fifo","Attributes":{"FifoQueue":"true"}}`, "")
		const ids = `"MessageGroupId":"g","MessageDeduplicationId":"d"`
		ask("SendMessage", `{"QueueUrl":"f.fifo","MessageBody":"x",`+ids+`}`, "")
		ask("SendMessage", `{"QueueUrl":"f.fifo","MessageBody":"x",`+ids+`}`, "")
		ask("TagQueue", `{"QueueUrl":"f.fifo","Tags":{"tenaq:dedup-window":"7d"}}`, "")
		ask("SendMessage", `{"QueueUrl":"f.fifo","MessageBody":"x",`+ids+`}`, "true")
	})
}
