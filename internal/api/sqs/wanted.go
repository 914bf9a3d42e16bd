package sqs

import (
	"slices"
	"strconv"
	"strings"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/engine"
)

// wantedAttributes is which attributes a receive asked for. [RCV-5, RCV-6, RCV-14]
type wantedAttributes struct{ system, user []string }

// systemOf returns the system attributes that were asked for and apply. [RCV-7, RCV-8]
func (w *wantedAttributes) systemOf(d *engine.Delivery, c *engine.Content) (attrs sqswire.Pairs) {
	if len(w.system) == 0 {
		return nil
	}
	all := slices.Contains(w.system, "All")
	add := func(name, value string) {
		if value != "" && (all || slices.Contains(w.system, name)) {
			attrs = append(attrs, sqswire.Pair{Name: name, Value: value})
		}
	}
	add("AWSTraceHeader", c.Trace)
	add("ApproximateFirstReceiveTimestamp", strconv.FormatInt(d.FirstReceive, 10)) // [RCV-10]
	add("ApproximateReceiveCount", strconv.FormatUint(uint64(d.Receives), 10))
	add("DeadLetterQueueSourceArn", d.Source) // [DLQ-24]
	add("MessageDeduplicationId", d.Dedup)    // [DEDUP-18]
	add("MessageGroupId", d.Group)
	add("SenderId", c.Sender)
	w.addReason(d, add)
	add("SentTimestamp", strconv.FormatInt(d.Sent, 10))
	if d.Sequence != 0 {
		add("SequenceNumber", d.Sequence.String()) // [FIFO-12]
	}
	return append(attrs, w.identitiesOf(d)...)
}

var identityNames = [...]string{"TenaqFence", "TenaqFirstSent", "TenaqGeneration", "TenaqLineageId"}

// identitiesOf returns the attributes that SQS does not have. All does not include them, so that a
// client which does not know them sees what SQS shows. [ID-6]
func (w *wantedAttributes) identitiesOf(d *engine.Delivery) (attrs sqswire.Pairs) {
	for _, name := range identityNames {
		if !slices.Contains(w.system, name) {
			continue
		}
		value := ""
		switch name {
		case "TenaqFence":
			value = strconv.FormatUint(d.Fence, 10)
		case "TenaqFirstSent":
			value = strconv.FormatInt(d.FirstSent, 10)
		case "TenaqGeneration":
			value = strconv.FormatUint(d.LineageGeneration, 10)
		case "TenaqLineageId":
			value = d.Lineage.String()
		}
		attrs = append(attrs, sqswire.Pair{Name: name, Value: value})
	}
	return attrs
}

// addReason adds why the message failed, for callers that name these attributes. [NACK-16]
func (w *wantedAttributes) addReason(d *engine.Delivery, add func(name, value string)) {
	if d.Story == nil {
		return
	}
	if a := d.Story.Reason(); a != nil {
		if slices.Contains(w.system, "TenaqReason") {
			add("TenaqReason", a.Reason())
		}
		if slices.Contains(w.system, "TenaqVerdict") {
			add("TenaqVerdict", a.How.String())
		}
	}
}

// userOf returns the user attributes that were asked for.
func (w *wantedAttributes) userOf(c *engine.Content) (attrs sqswire.MessageAttributes) {
	if len(w.user) == 0 {
		return nil
	}
	for _, a := range c.Attributes {
		if !w.wants(a.Name) {
			continue
		}
		out := sqswire.MessageAttribute{Name: a.Name, DataType: sqswire.Some(a.Type)}
		if a.Binary != nil {
			out.BinaryValue = a.Binary
		} else {
			out.StringValue = sqswire.Some(a.String)
		}
		attrs = append(attrs, out)
	}
	return attrs
}

// wants reports whether a user attribute was asked for, by name, by prefix or with all others.
// [RCV-15 to RCV-18]
func (w *wantedAttributes) wants(name string) bool {
	for _, want := range w.user {
		switch prefix, isPrefix := strings.CutSuffix(want, ".*"); {
		case want == name, want == "All", want == "*", want == ".*":
			return true
		case isPrefix && strings.HasPrefix(name, prefix):
			return true
		}
	}
	return false
}
