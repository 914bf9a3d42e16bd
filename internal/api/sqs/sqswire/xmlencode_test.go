package sqswire

import (
	"encoding/xml"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"tenaq/internal/api/sqs/sqswire/wiretest"
)

const testID = "7a62c49f-347e-4fc4-9331-6e8e7a96aa73"

// operation returns the operation of a name.
func operation(t *testing.T, name string) Operation {
	t.Helper()
	op, ok := lookup(name)
	if !ok {
		t.Fatalf("no operation %q", name)
	}
	return op.Operation
}

// Whole documents, one of each kind. [XML-13, XML-14, XML-15, XML-16, XML-20]
func TestXML(t *testing.T) {
	const head = `<?xml version="1.0"?>`
	const space = ` xmlns="http://queue.amazonaws.com/doc/2012-11-05/">`
	const metadata = `<ResponseMetadata><RequestId>` + testID + `</RequestId></ResponseMetadata>`
	for _, tt := range []struct {
		op   string
		resp Shape
		want string
	}{
		{"DeleteMessage", &Empty{}, head + `<DeleteMessageResponse` + space + metadata + `</DeleteMessageResponse>`},
		{"DeleteMessage", nil, head + `<DeleteMessageResponse` + space + metadata + `</DeleteMessageResponse>`},
		{"ReceiveMessage", &ReceiveMessageResponse{}, head + `<ReceiveMessageResponse` + space +
			`<ReceiveMessageResult/>` + metadata + `</ReceiveMessageResponse>`},
		{"ListQueues", &ListQueuesResponse{[]string{"u", "v"}, "t"}, head + `<ListQueuesResponse` + space +
			`<ListQueuesResult><QueueUrl>u</QueueUrl><QueueUrl>v</QueueUrl><NextToken>t</NextToken></ListQueuesResult>` +
			metadata + `</ListQueuesResponse>`},
		{"ReceiveMessage", &ReceiveMessageResponse{[]Message{{
			Attributes:             Pairs{{"SentTimestamp", "1"}, {"SenderId", "AIDA"}},
			Body:                   "a\r\n\"b\" ]]> <&quot;>\t😀",
			MD5OfBody:              "5f",
			MD5OfMessageAttributes: "a4",
			MessageAttributes: MessageAttributes{
				{Name: "k", DataType: Some("String"), StringValue: Some("x")},
				{Name: "b", DataType: Some("Binary"), BinaryValue: []byte{0, 255}},
			},
			MessageID:     "m",
			ReceiptHandle: "r",
		}}}, head + `<ReceiveMessageResponse` + space + `<ReceiveMessageResult><Message>` +
			`<Attribute><Name>SenderId</Name><Value>AIDA</Value></Attribute>` +
			`<Attribute><Name>SentTimestamp</Name><Value>1</Value></Attribute>` +
			`<Body>a&#xD;` + "\n" + `&quot;b&quot; ]]&gt; &lt;&amp;quot;&gt;` + "\t" + `😀</Body>` +
			`<MD5OfBody>5f</MD5OfBody><MD5OfMessageAttributes>a4</MD5OfMessageAttributes>` +
			`<MessageAttribute><Name>b</Name><Value><DataType>Binary</DataType><BinaryValue>AP8=</BinaryValue></Value></MessageAttribute>` +
			`<MessageAttribute><Name>k</Name><Value><DataType>String</DataType><StringValue>x</StringValue></Value></MessageAttribute>` +
			`<MessageId>m</MessageId><ReceiptHandle>r</ReceiptHandle></Message></ReceiveMessageResult>` + metadata + `</ReceiveMessageResponse>`},
		{"SendMessageBatch", &SendMessageBatchResponse{
			Successful: []SendMessageBatchResultEntry{{"1", Sent{MD5OfMessageBody: "5f", MessageID: "m"}}},
			Failed:     []BatchResultErrorEntry{Errorf("InternalError", "").Entry("2")},
		}, head + `<SendMessageBatchResponse` + space + `<SendMessageBatchResult>` +
			`<SendMessageBatchResultEntry><Id>1</Id><MD5OfMessageBody>5f</MD5OfMessageBody><MessageId>m</MessageId></SendMessageBatchResultEntry>` +
			`<BatchResultErrorEntry><Id>2</Id><Code>InternalError</Code><SenderFault>false</SenderFault></BatchResultErrorEntry>` +
			`</SendMessageBatchResult>` + metadata + `</SendMessageBatchResponse>`},
	} {
		if got := string(AppendXML(nil, operation(t, tt.op), tt.resp, testID)); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.op, got, tt.want)
		}
	}
}

// The same documents as JSON, for clients that accept it. [XML-26, XML-33, XML-34]
func TestQueryJSON(t *testing.T) {
	const metadata = `"ResponseMetadata":{"RequestId":"` + testID + `"}}}`
	for _, tt := range []struct {
		op   string
		resp Shape
		want string
	}{
		{"DeleteMessage", &Empty{}, `{"DeleteMessageResponse":{` + metadata},
		{"ListQueues", &ListQueuesResponse{}, `{"ListQueuesResponse":{"ListQueuesResult":{"queueUrls":null,"NextToken":null},` + metadata},
		{"ListQueues", &ListQueuesResponse{[]string{"u"}, "t"}, `{"ListQueuesResponse":{"ListQueuesResult":{"queueUrls":["u"],"NextToken":"t"},` + metadata},
		{"ListDeadLetterSourceQueues", &ListDeadLetterSourceQueuesResponse{}, `{"ListDeadLetterSourceQueuesResponse":{` +
			`"ListDeadLetterSourceQueuesResult":{"queueUrls":null,"NextToken":null},` + metadata},
		{"ReceiveMessage", &ReceiveMessageResponse{}, `{"ReceiveMessageResponse":{"ReceiveMessageResult":{"messages":null},` + metadata},
		{"ReceiveMessage", &ReceiveMessageResponse{[]Message{{Body: "x", MessageID: "m"}}},
			`{"ReceiveMessageResponse":{"ReceiveMessageResult":{"messages":[{"Attributes":null,"Body":"x","MD5OfBody":null,` +
				`"MD5OfMessageAttributes":null,"MessageAttributes":null,"MessageId":"m","ReceiptHandle":null}]},` + metadata},
		{"ReceiveMessage", &ReceiveMessageResponse{[]Message{{MessageAttributes: MessageAttributes{{Name: "k", DataType: Some("Binary"), BinaryValue: []byte{1}}}}}},
			`{"ReceiveMessageResponse":{"ReceiveMessageResult":{"messages":[{"Attributes":null,"Body":null,"MD5OfBody":null,` +
				`"MD5OfMessageAttributes":null,"MessageAttributes":[{"Name":"k","Value":{"DataType":"Binary","StringValue":null,"BinaryValue":"AQ==",` +
				`"StringListValues":null,"BinaryListValues":null}}],"MessageId":null,"ReceiptHandle":null}]},` + metadata},
		{"GetQueueAttributes", &GetQueueAttributesResponse{Pairs{{"DelaySeconds", "0"}, {"Policy", `{"a":1}`}}},
			`{"GetQueueAttributesResponse":{"GetQueueAttributesResult":{"Attributes":[{"Name":"DelaySeconds","Value":"0"},` +
				`{"Name":"Policy","Value":"{\"a\":1}"}]},` + metadata},
		{"ListQueueTags", &ListQueueTagsResponse{Pairs{{"k", ""}}},
			`{"ListQueueTagsResponse":{"ListQueueTagsResult":{"Tags":[{"Key":"k","Value":""}]},` + metadata},
		{"SendMessage", &SendMessageResponse{Sent{MD5OfMessageBody: "5f", MessageID: "m"}},
			`{"SendMessageResponse":{"SendMessageResult":{"MD5OfMessageAttributes":null,"MD5OfMessageBody":"5f",` +
				`"MD5OfMessageSystemAttributes":null,"MessageId":"m","SequenceNumber":null},` + metadata},
		{"DeleteMessageBatch", &DeleteMessageBatchResponse{Successful: []BatchResultEntry{{"1"}}},
			`{"DeleteMessageBatchResponse":{"DeleteMessageBatchResult":{"Successful":[{"Id":"1"}],"Failed":null},` + metadata},
		{"ListMessageMoveTasks", &ListMessageMoveTasksResponse{[]ListMessageMoveTasksResultEntry{{Status: "RUNNING"}}},
			`{"ListMessageMoveTasksResponse":{"ListMessageMoveTasksResult":{"Results":[{"ApproximateNumberOfMessagesMoved":0,` +
				`"ApproximateNumberOfMessagesToMove":null,"DestinationArn":null,"FailureReason":null,"MaxNumberOfMessagesPerSecond":null,` +
				`"SourceArn":null,"StartedTimestamp":0,"Status":"RUNNING","TaskHandle":null}]},` + metadata},
	} {
		if got := string(AppendQueryJSON(nil, operation(t, tt.op), tt.resp, testID)); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.op, got, tt.want)
		}
	}
	want := `{"Error":{"Code":"OverLimit","Message":"a \"b\"","Type":"Sender"},"RequestId":"` + testID + `"}`
	if got := string(AppendErrorQueryJSON(nil, &Error{"OverLimit", `a "b"`}, testID)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The whole catalogue in XML. [XML-21, XML-22, XML-23]
func TestErrorXML(t *testing.T) {
	for _, want := range wantErrors {
		fault := "Sender"
		if want.status >= 500 {
			fault = "Receiver"
		}
		document := `<?xml version="1.0"?><ErrorResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/"><Error><Type>` + fault +
			`</Type><Code>` + string(want.code) + `</Code><Message>why &quot;&lt;1&gt;&quot;</Message><Detail/></Error><RequestId>` + testID +
			`</RequestId></ErrorResponse>`
		if got := string(AppendErrorXML(nil, Errorf(want.code, `why "<%d>"`, 1), testID)); got != document {
			t.Errorf("%s:\n got %s\nwant %s", want.code, got, document)
		}
	}
	for message, want := range map[string]string{
		"":                                    "The specified queue does not exist for this wsdl version.",
		"The specified queue does not exist.": "The specified queue does not exist for this wsdl version.",
		"another":                             "another",
	} {
		got, err := wiretest.FromXML("", AppendErrorXML(nil, &Error{NonExistentQueue, message}, testID))
		if err != nil || got.Message != want || got.RequestID != testID {
			t.Errorf("unknown queue %q: got %+v, %v, want %q", message, got, err, want)
		}
	}
}

// Characters that XML forbids are replaced, and the rest of the text stays. [XML-18]
func TestForbiddenCharacters(t *testing.T) {
	for text, want := range map[string]string{
		"a\x00b\x1f":                       "a\uFFFDb\uFFFD",
		"\uFFFE\uFFFF\uFFFD\uF000\uEFFF":   "\uFFFD\uFFFD\uFFFD\uF000\uEFFF",
		"\x7f\u0085\u2028":                 "\x7f\u0085\u2028",
		"12345678\x0112345678\v":           "12345678\uFFFD12345678\uFFFD",
		"12345678\uFFFF\U0010FFFF12345678": "12345678\uFFFD\U0010FFFF12345678",
		"\xff":                             "\uFFFD",
	} {
		got, err := wiretest.FromXML("", AppendErrorXML(nil, &Error{InvalidParameterValue, text}, testID))
		if err != nil || got.Message != want {
			t.Errorf("%q: got %q, %v, want %q", text, got.Message, err, want)
		}
	}
}

// FuzzXMLText holds the escaping of text to a parser that knows nothing of it. [XML-17, XML-18]
func FuzzXMLText(f *testing.F) {
	for _, s := range []string{"", "hi", "\r\n\t\"'&<>]]>", "&quot;", "&#xD;", "<![CDATA[", "é€😀\uFFFE\uFFFF\uFFFD", "12345678\x00", "\xff12345678"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := strings.Map(func(r rune) rune {
			if !holdsXML(string(r)) {
				return utf8.RuneError
			}
			return r
		}, strings.ToValidUTF8(text, "\uFFFD"))
		for shift := range 8 { // eight bytes are looked at together
			pad := strings.Repeat("x", shift)
			document := appendXMLText([]byte("<a>"+pad), text)
			var got string
			if err := xml.Unmarshal(append(document, "</a>"...), &got); err != nil || got != pad+want {
				t.Fatalf("%q came back as %q, %v, want %q", text, got, err, pad+want)
			}
		}
	})
}

// holdsXML reports whether XML can hold a text.
func holdsXML(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF
	})
}

// sameInXML checks that a response is the same in XML as in JSON, apart from empty lists, and that
// JSON for clients of the Query protocol is well-formed.
func sameInXML(t *testing.T, op Operation, resp Shape) {
	t.Helper()
	want, err := wiretest.FromJSON(AppendJSON(nil, resp), "")
	if err != nil {
		t.Fatal(err)
	}
	document := AppendXML(nil, op, resp, testID)
	got, err := wiretest.FromXML(op.Name, document)
	if err != nil {
		t.Fatalf("%s: %v in %s", op.Name, err, document)
	}
	want.RequestID = testID
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %s\n says %+v\n want %+v", op.Name, document, got, want)
	}
}

// A request in the Query protocol, and its answer.
func ExampleForm() {
	form, err := ParseForm("", []byte("Action=UntagQueue&QueueUrl=orders&TagKey.10=team&TagKey.2=a+b"))
	if err != nil {
		panic(err)
	}
	req := new(UntagQueueRequest)
	if err := form.Decode(req); err != nil {
		panic(err)
	}
	fmt.Printf("%q\n", req.TagKeys)
	fmt.Printf("%s\n", AppendXML(nil, Operation{"UntagQueue", true}, nil, "7a62c49f-347e-4fc4-9331-6e8e7a96aa73"))
	// Output:
	// ["a b" "team"]
	// <?xml version="1.0"?><UntagQueueResponse xmlns="http://queue.amazonaws.com/doc/2012-11-05/"><ResponseMetadata><RequestId>7a62c49f-347e-4fc4-9331-6e8e7a96aa73</RequestId></ResponseMetadata></UntagQueueResponse>
}
