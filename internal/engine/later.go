package engine

import (
	"strconv"
	"strings"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/extension"
)

// Long delays. On a queue with the tag tenaq:delay-max, an attribute of a message says when it is
// delivered. The message stands in due like any delayed one. Its retention counts from the end of
// the delay, and so it has a row in origin. [EXT-24 to EXT-27]

const (
	laterPrefix   = "tenaq."
	delayName     = laterPrefix + "delay"
	deliverAtName = laterPrefix + "deliver-at"
)

// A later is what the attributes of a draft say of a long delay.
type later struct {
	name, value string
	delay, at   int64 // in milliseconds: the delay, or when it ends
	bad         bool  // the value cannot be read
	both        bool  // there are both attributes
}

// laterOf reads the attributes of a draft; nil if they say nothing. What is wrong matters only on a
// queue with the tag.
func laterOf(attributes []Attribute) (l *later) {
	for i := range attributes {
		a := &attributes[i]
		if !strings.HasPrefix(a.Name, laterPrefix) ||
			a.Name != delayName && a.Name != deliverAtName {
			continue
		}
		if l != nil {
			l.both = true
			return l
		}
		l = &later{name: a.Name, value: a.String}
		ok := false
		switch {
		case row.IsBinary(a.Type):
		case a.Name == delayName:
			l.delay, ok = extension.ReadDelay(a.String)
		default:
			l.at, ok = extension.ReadTime(a.String)
		}
		l.bad = !ok
	}
	return l
}

// checkLater refuses a draft whose long delay the queue does not take. [EXT-24, EXT-25]
func (d *Draft) checkLater(q *queue, now int64) *Error {
	l, most := d.later, q.ext.DelayMax
	if l == nil || most == 0 {
		return nil
	}
	longest := extension.SayDelay(most) + ", the " + extension.DelayMaxTag + " of the queue."
	switch at, _ := d.deliverAt(q, now); {
	case l.both:
		return invalid("The message has the attributes " + delayName + " and " + deliverAtName +
			"; leave one out.")
	case d.delay.Value > 0:
		return invalid("The message has DelaySeconds and the attribute " + l.name +
			"; leave one out.")
	case l.bad && l.name == delayName:
		return errValue(strconv.Quote(l.value), l.name,
			"Must be a text: a whole number and a unit, such as 30s, 15m, 36h or 90d.")
	case l.bad:
		return errValue(strconv.Quote(l.value), l.name,
			"Must be a time as in RFC 3339, with Z or an offset, such as 2027-01-31T08:00:00Z.")
	case at > now+most && l.name == delayName:
		return errValue(l.value, l.name, "Must be at most "+longest)
	case at > now+most:
		return errValue(l.value, l.name, "Must be within "+longest)
	}
	return nil
}

// deliverAt returns until when a long delay hides a message that is sent now, which may be over;
// false if it has none.
func (d *Draft) deliverAt(q *queue, now int64) (at int64, ok bool) {
	switch l := d.later; {
	case l == nil || q.ext.DelayMax == 0:
		return 0, false
	case l.name == delayName:
		return now + l.delay, true
	default:
		return l.at, true
	}
}
