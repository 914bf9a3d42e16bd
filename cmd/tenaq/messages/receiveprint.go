package messages

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/internal/cli"
)

// A received message, as --json prints it.
type received struct {
	MessageID     string                          `json:"messageId"`
	ReceiptHandle string                          `json:"receiptHandle"`
	Body          string                          `json:"body"`
	System        map[string]string               `json:"systemAttributes,omitempty"`
	Attributes    map[string]cli.MessageAttribute `json:"messageAttributes,omitempty"`
}

// print prints a message: one line of JSON, or a block that ends with an empty line.
func (r *receiver) print(m types.Message) error {
	if r.JSON {
		return r.PrintJSONLine(newReceived(m))
	}
	_, err := io.WriteString(r.Stdout, r.text(m, time.Now()))
	return err
}

func newReceived(m types.Message) received {
	v := received{
		MessageID:     aws.ToString(m.MessageId),
		ReceiptHandle: aws.ToString(m.ReceiptHandle),
		Body:          aws.ToString(m.Body),
		System:        m.Attributes,
	}
	for name, a := range m.MessageAttributes {
		if v.Attributes == nil {
			v.Attributes = map[string]cli.MessageAttribute{}
		}
		v.Attributes[name] = cli.MessageAttribute{Type: aws.ToString(a.DataType),
			String: a.StringValue, Binary: a.BinaryValue}
	}
	return v
}

// text describes a message for people; the body comes last because it may be long.
func (r *receiver) text(m types.Message, now time.Time) string {
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-9s %s\n", name, cli.OneLine(value))
		}
	}
	on, off := r.Bold()
	fmt.Fprintf(&b, "%s%-9s %s%s\n", on, "message", cli.OneLine(aws.ToString(m.MessageId)), off)
	if ms, err := strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64); err == nil {
		field("sent", cli.HumanTime(time.UnixMilli(ms), now))
	}
	field("receives", m.Attributes["ApproximateReceiveCount"])
	field("group", m.Attributes["MessageGroupId"])
	field("dedup-id", m.Attributes["MessageDeduplicationId"])
	field("sequence", m.Attributes["SequenceNumber"])
	field("from", m.Attributes["DeadLetterQueueSourceArn"])
	for _, name := range slices.Sorted(maps.Keys(m.MessageAttributes)) {
		field("attribute", name+":"+cli.AttributeValueText(m.MessageAttributes[name]))
	}
	field("handle", aws.ToString(m.ReceiptHandle))
	b.WriteString(cli.Shown(r.Stdout, cmp.Or(aws.ToString(m.Body), "(empty)")) + "\n\n")
	return b.String()
}
