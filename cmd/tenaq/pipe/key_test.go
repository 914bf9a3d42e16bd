package pipe

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/cli"
	"tenaq/worker"
)

func TestPipeKey(t *testing.T) {
	attributes := map[string]types.MessageAttributeValue{
		"order": {DataType: aws.String("String"), StringValue: aws.String("17")},
		"blob":  {DataType: aws.String("Binary"), BinaryValue: []byte{1}},
	}
	for _, test := range []struct{ where, body, want, bad string }{
		{"body.id", `{"id": "a"}`, "a", ""},
		{"body.order.id", `{"order": {"id": 17}}`, "17", ""},
		{"body.id", `{"id": 12345678901234567890}`, "12345678901234567890", ""},
		{"body.0.id", `[{"id": "a"}]`, "a", ""},
		{"body.items.1", `{"items": ["a", "b"]}`, "b", ""},
		{"attribute:order", ``, "17", ""},
		{"body.id", `{"id": 1.0}`, "", "neither a string nor a whole number"},
		{"body.id", `{"id": 1e3}`, "", "neither a string nor a whole number"},
		{"body.id", `{"id": true}`, "", "neither"},
		{"body.id", `{"id": null}`, "", "neither"},
		{"body.id", `{"id": ["a"]}`, "", "neither"},
		{"body.id", `{"id": ""}`, "", "it is empty"},
		{"body.id", `{}`, "", `no key at body.id: there is no "id"`},
		{"body.id.x", `{"id": "a"}`, "", `there is no "x"`},
		{"body.2", `["a", "b"]`, "", `there is no "2"`},
		{"body.-1", `["a", "b"]`, "", `there is no "-1"`},
		{"body.id", `id`, "", "the body is not valid JSON"},
		{"body.id", `{"id": "a"} {"id": "b"}`, "", "more than one"},
		{"attribute:trace", ``, "", `no attribute "trace"`},
		{"attribute:blob", ``, "", "is not a non-empty string"},
	} {
		key, err := parseKey(test.where)
		if err != nil {
			t.Errorf("%s: %v", test.where, err)
			continue
		}
		got, err := key(&worker.Message{Body: test.body, Attributes: attributes})
		if got != test.want || (err == nil) != (test.bad == "") || err != nil && !strings.Contains(err.Error(), test.bad) {
			t.Errorf("%s of %s: got %q, %v, want %q, %q", test.where, test.body, got, err, test.want, test.bad)
		}
	}
	for _, where := range []string{"body", "body.", "body..id", "id", ".id", "attribute:", "attribute", "group"} {
		if _, err := parseKey(where); cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%s: got %v, want it refused", where, err)
		}
	}
}
