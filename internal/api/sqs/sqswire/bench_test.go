package sqswire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"tenaq/internal/api/sqs/sqswire/wiretest"
)

// The structs that a codec built on encoding/json would use, to compare with.
type (
	stdSendMessage struct {
		QueueUrl          *string
		MessageBody       *string
		DelaySeconds      *int64
		MessageAttributes map[string]stdAttribute
	}
	stdAttribute struct {
		DataType    *string `json:",omitempty"`
		StringValue *string `json:",omitempty"`
		BinaryValue []byte  `json:",omitempty"`
	}
	stdReceiveMessage struct {
		Messages []stdMessage `json:",omitempty"`
	}
	stdMessage struct {
		Attributes             map[string]string       `json:",omitempty"`
		Body                   string                  `json:",omitempty"`
		MD5OfBody              string                  `json:",omitempty"`
		MD5OfMessageAttributes string                  `json:",omitempty"`
		MessageAttributes      map[string]stdAttribute `json:",omitempty"`
		MessageId              string                  `json:",omitempty"`
		ReceiptHandle          string                  `json:",omitempty"`
	}
)

// bodies are of 1 KiB: one that needs no escapes, and one that is JSON itself, as many bodies are.
var bodies = []struct{ name, body string }{
	{"plain", strings.Repeat("0123456789abcdef", 64)},
	{"json", strings.Repeat(`{"order":12345,"items":["a","b"],"note":"none"},`, 22)[:1024]},
}

func BenchmarkDecodeSendMessage(b *testing.B) {
	for _, bench := range bodies {
		quoted := string(appendQuoted(nil, bench.body))
		body := []byte(`{"QueueUrl":"http://localhost:9324/000000000000/orders","MessageBody":` + quoted +
			`,"DelaySeconds":0,"MessageAttributes":{"trace":{"DataType":"String","StringValue":"0123456789abcdef"}}}`)
		b.Run(bench.name+"/sqswire", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				req := new(SendMessageRequest)
				if err := DecodeJSON(body, req); err != nil || req.MessageBody.Value != bench.body {
					b.Fatal(err)
				}
			}
		})
		b.Run(bench.name+"/std", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				req := new(stdSendMessage)
				if err := json.Unmarshal(body, req); err != nil || *req.MessageBody != bench.body {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncodeReceiveMessage(b *testing.B) {
	for _, bench := range bodies {
		message := Message{
			Attributes: Pairs{{"ApproximateReceiveCount", "1"}, {"SentTimestamp", "1700000000000"}},
			Body:       bench.body,
			MD5OfBody:  strings.Repeat("0", 32),
			MessageAttributes: MessageAttributes{
				{Name: "trace", DataType: Some("String"), StringValue: Some("0123456789abcdef")},
			},
			MessageID:     "8b0c5e0e-6f3c-4c43-9c39-8f3e9c9d1a55",
			ReceiptHandle: strings.Repeat("A", 100),
		}
		dataType, value := "String", "0123456789abcdef"
		stdMessage := stdMessage{
			Attributes:        map[string]string{"ApproximateReceiveCount": "1", "SentTimestamp": "1700000000000"},
			Body:              message.Body,
			MD5OfBody:         message.MD5OfBody,
			MessageAttributes: map[string]stdAttribute{"trace": {DataType: &dataType, StringValue: &value}},
			MessageId:         message.MessageID,
			ReceiptHandle:     message.ReceiptHandle,
		}
		var resp ReceiveMessageResponse
		var stdResp stdReceiveMessage
		for range 10 {
			resp.Messages = append(resp.Messages, message)
			stdResp.Messages = append(stdResp.Messages, stdMessage)
		}
		want, err := json.Marshal(&stdResp)
		if err != nil || string(AppendJSON(nil, &resp)) != string(want) {
			b.Fatalf("got %s, want %s", AppendJSON(nil, &resp), want)
		}
		b.Run(bench.name+"/sqswire", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(want)))
			var dst []byte
			for b.Loop() {
				dst = AppendJSON(dst[:0], &resp)
			}
		})
		b.Run(bench.name+"/std", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(want)))
			for b.Loop() {
				if _, err := json.Marshal(&stdResp); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// The same message in both protocols, one after the other.
func BenchmarkProtocols(b *testing.B) {
	for _, bench := range bodies {
		body := []byte(`{"QueueUrl":"http://localhost:9324/000000000000/orders","MessageBody":` + string(appendQuoted(nil, bench.body)) +
			`,"DelaySeconds":0,"MessageAttributes":{"trace":{"DataType":"String","StringValue":"0123456789abcdef"}}}`)
		form := mustForm(b, "SendMessage", body)
		compareDecoding(b, "SendMessage/"+bench.name, "SendMessage", body, form)

		var entries []string
		for i := range 10 {
			entries = append(entries, fmt.Sprintf(`{"Id":"e%d","MessageBody":%s}`, i, appendQuoted(nil, bench.body)))
		}
		batch := []byte(`{"QueueUrl":"http://localhost:9324/000000000000/orders","Entries":[` + strings.Join(entries, ",") + `]}`)
		compareDecoding(b, "SendMessageBatch/"+bench.name, "SendMessageBatch", batch, mustForm(b, "SendMessageBatch", batch))

		resp := &ReceiveMessageResponse{}
		for range 10 {
			resp.Messages = append(resp.Messages, Message{
				Attributes:    Pairs{{"ApproximateReceiveCount", "1"}, {"SentTimestamp", "1700000000000"}},
				Body:          bench.body,
				MD5OfBody:     strings.Repeat("0", 32),
				MessageID:     "8b0c5e0e-6f3c-4c43-9c39-8f3e9c9d1a55",
				ReceiptHandle: strings.Repeat("A", 100),
			})
		}
		op, _ := lookup("ReceiveMessage")
		var dst []byte
		b.Run("ReceiveMessage/"+bench.name+"/json", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				dst = AppendJSON(dst[:0], resp)
			}
		})
		b.Run("ReceiveMessage/"+bench.name+"/query", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				dst = AppendXML(dst[:0], op.Operation, resp, testID)
			}
		})
	}
}

func mustForm(b *testing.B, action string, body []byte) []byte {
	form, err := wiretest.Form(action, body)
	if err != nil {
		b.Fatal(err)
	}
	return []byte(form)
}

func compareDecoding(b *testing.B, name, action string, body, form []byte) {
	op, _ := lookup(action)
	b.Run(name+"/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := DecodeJSON(body, op.NewRequest()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run(name+"/query", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f, err := ParseForm("", form)
			if err != nil {
				b.Fatal(err)
			}
			if err := f.Decode(op.NewRequest()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
