package cli

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
)

func TestSameAttribute(t *testing.T) {
	for _, tt := range []struct {
		name, a, b string
		want       bool
	}{
		{"VisibilityTimeout", "30", "30", true},
		{"VisibilityTimeout", "030", "30", true},
		{"VisibilityTimeout", "30", "31", false},
		{"VisibilityTimeout", "30", "", false},
		{"SqsManagedSseEnabled", "True", "true", true},
		{"SqsManagedSseEnabled", "True", "false", false},
		{"DeduplicationScope", "Queue", "queue", false},
		{"RedrivePolicy", `{"maxReceiveCount":"5","deadLetterTargetArn":"a"}`, `{"deadLetterTargetArn":"a", "maxReceiveCount":5}`, true},
		{"RedrivePolicy", `{"maxReceiveCount":6,"deadLetterTargetArn":"a"}`, `{"deadLetterTargetArn":"a","maxReceiveCount":5}`, false},
		{"RedrivePolicy", "", "", true},
		{"RedrivePolicy", "", "{}", false},
		{"Policy", `{"a":[1,2]}`, `{"a":[2,1]}`, false},
		{"Policy", "not JSON", "{}", false},
	} {
		if got := SameAttribute(tt.name, tt.a, tt.b); got != tt.want {
			t.Errorf("sameAttribute(%s, %q, %q): got %t, want %t", tt.name, tt.a, tt.b, got, tt.want)
		}
	}
}

func TestParseMessageAttribute(t *testing.T) {
	for _, tt := range []struct{ arg, name, dataType, text, binary, err string }{
		{arg: "trace=abc", name: "trace", dataType: "String", text: "abc"},
		{arg: "trace=a=b", name: "trace", dataType: "String", text: "a=b"},
		{arg: "url=http://x", name: "url", dataType: "String", text: "http://x"},
		{arg: "at=@home", name: "at", dataType: "String", text: "@home"},
		{arg: "n:Number=3", name: "n", dataType: "Number", text: "3"},
		{arg: "n:Number.float=3.5", name: "n", dataType: "Number.float", text: "3.5"},
		{arg: "b:Binary=AAEC", name: "b", dataType: "Binary", binary: "\x00\x01\x02"},
		{arg: "b:Binary.png=AAEC", name: "b", dataType: "Binary.png", binary: "\x00\x01\x02"},
		{arg: "trace", err: `"trace" is not of the form NAME=VALUE or NAME:TYPE=VALUE`},
		{arg: "=abc", err: `"=abc" is not of the form NAME=VALUE or NAME:TYPE=VALUE`},
		{arg: "n:number=3", err: `n: type "number" is not one of String, Number, Binary`},
		{arg: "b:Binary=?", err: `b: "?" is neither @FILE nor base64`},
		{arg: "s=\xff", err: `s: the value is not valid UTF-8; send it as s:Binary=@FILE`},
	} {
		name, v, err := parseMessageAttribute(tt.arg)
		if errorText(err) != tt.err {
			t.Errorf("parseMessageAttribute(%q): got error %q, want %q", tt.arg, errorText(err), tt.err)
			continue
		}
		if err != nil {
			continue
		}
		if name != tt.name || aws.ToString(v.DataType) != tt.dataType || aws.ToString(v.StringValue) != tt.text || string(v.BinaryValue) != tt.binary {
			t.Errorf("parseMessageAttribute(%q): got %q, %q, %q, %q, want %q, %q, %q, %q", tt.arg,
				name, aws.ToString(v.DataType), aws.ToString(v.StringValue), v.BinaryValue, tt.name, tt.dataType, tt.text, tt.binary)
		}
	}
}

func TestZeros(t *testing.T) {
	var z Zeros
	z.Add("DelaySeconds", 0)
	z.Add("VisibilityTimeout", 30)
	for in, want := range map[string]string{
		`{"QueueUrl":"q","MessageBody":"b"}`:                 `{"DelaySeconds":0,"MessageBody":"b","QueueUrl":"q"}`,
		`{"QueueUrl":"q","Entries":[{"Id":"1"},{"Id":"2"}]}`: `{"Entries":[{"DelaySeconds":0,"Id":"1"},{"DelaySeconds":0,"Id":"2"}],"QueueUrl":"q"}`,
	} {
		got, err := z.into([]byte(in))
		if err != nil || string(got) != want {
			t.Errorf("into %s: got %s, %v, want %s", in, got, err, want)
		}
	}
}

func TestEscapeControls(t *testing.T) {
	for in, want := range map[string]string{
		"plain, with äöü and 漢字": "plain, with äöü and 漢字",
		"two\nlines\t.":          `two\nlines\t.`,
		"\x1b[31mred\x7f\u009b":  `\x1b[31mred\x7f\u009b`,
	} {
		if got := OneLine(in); got != want {
			t.Errorf("oneLine(%q): got %q, want %q", in, got, want)
		}
	}
}

func TestAttributeUnits(t *testing.T) {
	for in, want := range map[string]string{
		"VisibilityTimeout=60":         "60",
		"VisibilityTimeout=60s":        "60",
		"VisibilityTimeout=1m30s":      "90",
		"MessageRetentionPeriod=4d":    "345600",
		"DelaySeconds=0s":              "0",
		"DelaySeconds=-1":              "-1", // the server's to refuse
		"DelaySeconds=soon":            "soon",
		"MaximumMessageSize=256KiB":    "262144",
		"MaximumMessageSize=1 MiB":     "1048576",
		"MaximumMessageSize=60s":       "60s",
		"KmsMasterKeyId=60s":           "60s",
		"FifoThroughputLimit=perQueue": "perQueue",
		"RedrivePolicy=":               "",
		"VisibilityTimeout=":           "",
		"VisibilityTimeout=1500ms":     `--attribute: VisibilityTimeout: "1500ms" is not a whole number of seconds`,
	} {
		attributes, err := ParseAttributes([]string{in})
		got := errorText(err)
		for _, value := range attributes {
			got = value
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
	}
}

func TestTableRunsOnInItsLastCell(t *testing.T) {
	var out strings.Builder
	a := &App{Stdout: &out}
	tb := Table{Head: []string{"NAME", "VALUE", "MEANS"}}
	tb.Add("policy", strings.Repeat("x", 30), "")
	tb.Add("zeit", "60", "1 min")
	if err := a.PrintTable(tb); err != nil {
		t.Fatal(err)
	}
	want := "NAME    VALUE  MEANS\npolicy  xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\nzeit    60     1 min\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
