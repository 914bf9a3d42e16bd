package sqswire

import (
	"fmt"
	"strings"
	"testing"
)

// Every operation answers an object, at least an empty one, without empty lists and maps. [WIRE-11]
// [WIRE-12] [WIRE-13] [WIRE-15] [WIRE-16] [WIRE-17]
func TestResponses(t *testing.T) {
	const md5Hi, md5K = "49f68a5c8493ec2c0bf489821c21fc3b", "a45daa70926828a2f0a1db3418e6feb4"
	tests := map[string][]struct {
		resp Shape
		want string
	}{
		"AddPermission": {{&Empty{}, `{}`}, {nil, `{}`}},
		"CancelMessageMoveTask": {
			{&CancelMessageMoveTaskResponse{}, `{"ApproximateNumberOfMessagesMoved":0}`},
			{&CancelMessageMoveTaskResponse{12}, `{"ApproximateNumberOfMessagesMoved":12}`},
		},
		"ChangeMessageVisibility": {{&Empty{}, `{}`}},
		"ChangeMessageVisibilityBatch": {
			{&ChangeMessageVisibilityBatchResponse{}, `{}`},
			{
				&ChangeMessageVisibilityBatchResponse{Failed: []BatchResultErrorEntry{Errorf("InternalError", "").Entry("1")}},
				`{"Failed":[{"Id":"1","Code":"InternalError","SenderFault":false}]}`,
			},
		},
		"CreateQueue":   {{&CreateQueueResponse{"http://h/1/q"}, `{"QueueUrl":"http://h/1/q"}`}},
		"DeleteMessage": {{&Empty{}, `{}`}},
		"DeleteMessageBatch": {{
			&DeleteMessageBatchResponse{
				Successful: []BatchResultEntry{{"1"}, {"2"}},
				Failed:     []BatchResultErrorEntry{Errorf("ReceiptHandleIsInvalid", "The handle %q.", "x").Entry("3")},
			},
			`{"Successful":[{"Id":"1"},{"Id":"2"}],` +
				`"Failed":[{"Id":"3","Code":"ReceiptHandleIsInvalid","Message":"The handle \"x\".","SenderFault":true}]}`,
		}},
		"DeleteQueue": {{&Empty{}, `{}`}},
		"GetQueueAttributes": {
			{&GetQueueAttributesResponse{}, `{}`},
			{&GetQueueAttributesResponse{Pairs{}}, `{}`},
			{
				&GetQueueAttributesResponse{Pairs{{"VisibilityTimeout", "30"}, {"DelaySeconds", "0"}, {"Policy", `{"a":1}`}}},
				`{"Attributes":{"DelaySeconds":"0","Policy":"{\"a\":1}","VisibilityTimeout":"30"}}`,
			},
		},
		"GetQueueUrl": {{&GetQueueURLResponse{"http://h/1/q"}, `{"QueueUrl":"http://h/1/q"}`}},
		"ListDeadLetterSourceQueues": {
			{&ListDeadLetterSourceQueuesResponse{}, `{"queueUrls":[]}`},
			{&ListDeadLetterSourceQueuesResponse{[]string{"u", "v"}, "t"}, `{"queueUrls":["u","v"],"NextToken":"t"}`},
		},
		"ListMessageMoveTasks": {
			{&ListMessageMoveTasksResponse{}, `{}`},
			{
				&ListMessageMoveTasksResponse{[]ListMessageMoveTasksResultEntry{{
					ApproximateNumberOfMessagesMoved:  1,
					ApproximateNumberOfMessagesToMove: Some(int64(0)),
					DestinationARN:                    "arn:d",
					FailureReason:                     "AWS.SimpleQueueService.NonExistentQueue",
					MaxNumberOfMessagesPerSecond:      Some(int64(500)),
					SourceARN:                         "arn:s",
					StartedTimestamp:                  1700000000123,
					Status:                            "FAILED",
					TaskHandle:                        "h",
				}, {Status: "RUNNING"}}},
				`{"Results":[{"ApproximateNumberOfMessagesMoved":1,"ApproximateNumberOfMessagesToMove":0,` +
					`"DestinationArn":"arn:d","FailureReason":"AWS.SimpleQueueService.NonExistentQueue",` +
					`"MaxNumberOfMessagesPerSecond":500,"SourceArn":"arn:s","StartedTimestamp":1700000000123,` +
					`"Status":"FAILED","TaskHandle":"h"},` +
					`{"ApproximateNumberOfMessagesMoved":0,"StartedTimestamp":0,"Status":"RUNNING"}]}`,
			},
		},
		"ListQueueTags": {
			{&ListQueueTagsResponse{}, `{}`},
			{&ListQueueTagsResponse{Pairs{{"k", ""}}}, `{"Tags":{"k":""}}`},
		},
		"ListQueues": {
			{&ListQueuesResponse{QueueURLs: []string{}}, `{}`},
			{&ListQueuesResponse{[]string{"u", "v"}, "t"}, `{"QueueUrls":["u","v"],"NextToken":"t"}`},
		},
		"PurgeQueue": {{&Empty{}, `{}`}},
		"ReceiveMessage": {
			{&ReceiveMessageResponse{}, `{}`},
			{
				&ReceiveMessageResponse{[]Message{{
					Attributes:             Pairs{{"SentTimestamp", "1"}, {"ApproximateReceiveCount", "2"}},
					Body:                   "hi",
					MD5OfBody:              md5Hi,
					MD5OfMessageAttributes: md5K,
					MessageAttributes: MessageAttributes{
						{Name: "k", DataType: Some("String"), StringValue: Some("x")},
						{Name: "b", DataType: Some("Binary"), BinaryValue: []byte{0, 1, 255}},
					},
					MessageID:     "m1",
					ReceiptHandle: "h1",
				}, {Body: "ho", MessageID: "m2"}}},
				`{"Messages":[{"Attributes":{"ApproximateReceiveCount":"2","SentTimestamp":"1"},"Body":"hi",` +
					`"MD5OfBody":"` + md5Hi + `","MD5OfMessageAttributes":"` + md5K + `",` +
					`"MessageAttributes":{"b":{"DataType":"Binary","BinaryValue":"AAH/"},` +
					`"k":{"DataType":"String","StringValue":"x"}},"MessageId":"m1","ReceiptHandle":"h1"},` +
					`{"Body":"ho","MessageId":"m2"}]}`,
			},
		},
		"RemovePermission": {{&Empty{}, `{}`}},
		"SendMessage": {
			{
				&SendMessageResponse{Sent{MD5OfMessageBody: md5Hi, MessageID: "m"}},
				`{"MD5OfMessageBody":"` + md5Hi + `","MessageId":"m"}`,
			},
			{
				&SendMessageResponse{Sent{md5K, md5Hi, "s", "m", "18881234567890123456"}},
				`{"MD5OfMessageAttributes":"` + md5K + `","MD5OfMessageBody":"` + md5Hi + `",` +
					`"MD5OfMessageSystemAttributes":"s","MessageId":"m","SequenceNumber":"18881234567890123456"}`,
			},
		},
		"SendMessageBatch": {{
			&SendMessageBatchResponse{
				Successful: []SendMessageBatchResultEntry{{"1", Sent{MD5OfMessageBody: md5Hi, MessageID: "m"}}},
				Failed:     []BatchResultErrorEntry{{"2", InvalidParameterValue, "no", true}},
			},
			`{"Successful":[{"Id":"1","MD5OfMessageBody":"` + md5Hi + `","MessageId":"m"}],` +
				`"Failed":[{"Id":"2","Code":"InvalidParameterValue","Message":"no","SenderFault":true}]}`,
		}},
		"SetQueueAttributes":   {{&Empty{}, `{}`}},
		"StartMessageMoveTask": {{&StartMessageMoveTaskResponse{"h"}, `{"TaskHandle":"h"}`}},
		"TagQueue":             {{&Empty{}, `{}`}},
		"UntagQueue":           {{&Empty{}, `{}`}},
	}
	for _, op := range operations {
		if len(tests[op.Name]) == 0 {
			t.Errorf("no response of %s is tested", op.Name)
		}
		for _, test := range tests[op.Name] {
			if _, empty := test.resp.(*Empty); empty != op.Void && test.resp != nil {
				t.Errorf("%s answers with %T, but Void is %v", op.Name, test.resp, op.Void)
			}
			got := string(AppendJSON([]byte("HTTP "), test.resp))
			if got != "HTTP "+test.want {
				t.Errorf("%s:\n got %s\nwant HTTP %s", op.Name, got, test.want)
			}
			sameInXML(t, op.Operation, test.resp)
		}
	}
}

// The caller's list keeps its order, although the response has another.
func TestEncoderLeavesMapsAlone(t *testing.T) {
	resp := &ListQueueTagsResponse{Pairs{{"b", "2"}, {"a", "1"}}}
	if got, want := string(AppendJSON(nil, resp)), `{"Tags":{"a":"1","b":"2"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := resp.Tags[0].Name; got != "b" {
		t.Errorf("the first tag became %q, want %q", got, "b")
	}
}

func TestQuoting(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", `""`},
		{`"\/`, `"\"\\/"`},
		{"\b\f\n\r\t", `"\b\f\n\r\t"`},
		{"\x00\x01\x1f\x7f", `"\u0000\u0001\u001f` + "\x7f" + `"`},
		{"<a href='x'>&amp;</a>", `"<a href='x'>&amp;</a>"`},
		{"é€😀\u2028\uffff\ufffd", `"é€😀` + "\u2028\uffff\ufffd" + `"`},
		{"12345678\n", `"12345678\n"`},
		{"bad \xff\xfe and \xed\xa0\x80", "\"bad \ufffd and \ufffd\""},
	}
	for _, test := range tests {
		if got := string(appendQuoted(nil, test.in)); got != test.want {
			t.Errorf("quoted %q: got %s, want %s", test.in, got, test.want)
		}
	}
}

// Every byte is found, or not, at every place of the eight that are looked at together, whatever
// surrounds it.
func TestPlainPrefix(t *testing.T) {
	for _, filler := range []byte{' ', '!', '#', '[', ']', 'a', 0x7f, 0x80, 0xa2, 0xdc, 0xff} {
		for length := range 20 {
			for at := range length {
				for c := range 256 {
					s := strings.Repeat(string([]byte{filler}), length)
					s = s[:at] + string([]byte{byte(c)}) + s[at+1:]
					want := length
					if c < ' ' || c == '"' || c == '\\' {
						want = at
					}
					if got := plainPrefix(s); got != want {
						t.Fatalf("plainPrefix(%q) = %d, want %d", s, got, want)
					}
				}
			}
		}
	}
}

func ExampleAppendErrorJSON() {
	fmt.Printf("%s\n", AppendErrorJSON(nil, Errorf(MissingParameter, "The request must contain the parameter %s.", "MessageBody")))
	// Output: {"__type":"com.amazon.coral.service#MissingRequiredParameterException","message":"The request must contain the parameter MessageBody."}
}
