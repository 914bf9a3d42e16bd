package monitor

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/series"
)

// Texts for people. Names, descriptions and reasons come from clients. So each becomes one line of
// bounded length, without control characters and without what Slack takes for a mention or a link.

// Bounds of texts from clients, in bytes.
const (
	nameMax   = 255
	reasonMax = 300
	textMax   = 30_000
)

// clean makes one line of a text, and cuts it.
func clean(s string, most int) string {
	s = strings.Map(func(c rune) rune {
		switch {
		case unicode.IsSpace(c):
			return ' '
		case unicode.IsControl(c), unicode.Is(unicode.Cf, c), c == unicode.ReplacementChar:
			return -1
		}
		return c
	}, s)
	s = strings.TrimSpace(s)
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// Text is the notice for people.
func (n *Notice) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", n.State, clean(n.Alarm, nameMax))
	if n.Again {
		b.WriteString(" (still)")
	}
	if !n.At.IsZero() {
		b.WriteString(n.At.UTC().Format(", since 2006-01-02 15:04:05 UTC"))
	}
	b.WriteString("\n")
	if n.Description != "" && n.State == alarm.Alarm {
		b.WriteString(clean(n.Description, 1024) + "\n")
	}
	b.WriteString(clean(n.Reason, 1024) + "\n")
	if n.Changes > 1 {
		fmt.Fprintf(&b, "The state has changed %d times since the last notice.\n", n.Changes)
	}
	if s := n.Sample; s != nil {
		fmt.Fprintf(&b, "Message %s", s.MessageID)
		if s.Key != "" {
			fmt.Fprintf(&b, " (%s)", clean(s.Key, nameMax))
		}
		fmt.Fprintf(&b, ", first sent %s", s.FirstSent.UTC().Format("2006-01-02 15:04:05 UTC"))
		switch s.Receives {
		case 0: // a worker sent it here
		case 1:
			b.WriteString(", received once")
		default:
			fmt.Fprintf(&b, ", received %d times", s.Receives)
		}
		switch {
		case s.Attempts == 1:
			b.WriteString(", given up after 1 attempt")
		case s.Attempts > 1:
			fmt.Fprintf(&b, ", given up after %d attempts", s.Attempts)
		}
		if s.Reason != "" {
			fmt.Fprintf(&b, ": %s", clean(s.Reason, reasonMax))
		}
		b.WriteString("\n")
	}
	for _, c := range n.Commands {
		b.WriteString("  " + c + "\n")
	}
	if n.Page != "" {
		b.WriteString("What to do: " + n.Page + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// together is one message for people with several notices.
func together(notices []*Notice) string {
	var b strings.Builder
	if len(notices) > 1 {
		fmt.Fprintf(&b, "%d alarm notices:\n\n", len(notices))
	}
	for i, n := range notices {
		text := forSlack.Replace(n.Text())
		if b.Len()+len(text) > textMax {
			fmt.Fprintf(&b, "and %d more: tenaq alarms", len(notices)-i)
			break
		}
		b.WriteString(text + "\n\n")
	}
	return strings.TrimSpace(b.String())
}

// forSlack takes its meaning from what Slack would make mentions and links of.
var forSlack = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// Commands returns the commands that show more about an alarm.
func (m *Monitor) Commands(s *Status) []string { return m.commands(s.Name, s.Queue, s.State) }

var (
	queuePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}([.]fifo)?$`)
	plainWord    = regexp.MustCompile(`^[A-Za-z0-9_./@-]+$`)
)

// commands returns no command for an impossible name of a queue, and quotes names that a client may
// have made up.
func (m *Monitor) commands(name, queue string, state alarm.State) (list []string) {
	_, t := templateOf(name)
	add := func(command string, remote bool) {
		if remote && m.cfg.Endpoint != "" {
			command += " --endpoint-url " + m.cfg.Endpoint
		}
		list = append(list, command)
	}
	switch isQueue := queuePattern.MatchString(queue); {
	case t != nil:
		for _, c := range t.commands {
			if c == redrivePlan && m.isParkingLot(queue) {
				c = parkedList
			}
			if isQueue || !strings.Contains(c, "QUEUE") {
				// that is about a database
				add(strings.ReplaceAll(c, "QUEUE", queue), !strings.HasPrefix(c, "tenaq outbox "))
			}
		}
	case isQueue:
		add("tenaq queue show "+queue, true)
		add("tenaq peek "+queue+" --limit 10", true)
	}
	if state == alarm.Alarm && t != nil {
		add("tenaq alarms explain "+shellWord(name), false)
	}
	if state == alarm.Alarm {
		add("tenaq alarms ack "+shellWord(name), true)
	}
	return list
}

// Page returns where the page of an alarm that is raised is, empty if it has none. [ALARM-53]
func (m *Monitor) Page(s *Status) string { return m.page(s.Name, s.State) }

// page returns where the page of a built-in alarm is, empty for any other alarm. [ALARM-53]
func (m *Monitor) page(name string, state alarm.State) string {
	_, t := templateOf(name)
	if t == nil || state != alarm.Alarm {
		return ""
	}
	return strings.ReplaceAll(m.cfg.Pages, PageKind, string(t.kind))
}

// Commands about dead letters: the plan for a dead-letter queue, and the list of a parking lot.
const (
	redrivePlan = "tenaq redrive plan QUEUE"
	parkedList  = "tenaq redrive parked list QUEUE"
)

// isParkingLot reports whether a queue is a parking lot, by its name or by the report of a
// redriver.
func (m *Monitor) isParkingLot(queue string) bool {
	if ParkingName(queue) {
		return true
	}
	lot := series.Filter{Namespace: string(Redrivers), Name: ParkingLot,
		Dimensions: Redrivers.Metric(ParkingLot, queue).Dimensions}
	return m.series != nil && len(m.series.List(lot)) > 0
}

// ShippedCommands returns all commands that notices of built-in alarms may have, for a queue and an
// endpoint. Tests run them.
func ShippedCommands(queue, endpoint string) (all []string) {
	m := &Monitor{cfg: Config{Endpoint: endpoint}}
	for i := range templates {
		all = append(all, m.commands(shippedName(queue, templates[i].kind), queue, alarm.Alarm)...)
	}
	all = append(all, strings.ReplaceAll(parkedList, "QUEUE", queue))
	return append(all, m.commands("another-alarm", queue, alarm.Alarm)...)
}

// shellWord makes one word for a shell of a text, which is never read as a flag.
func shellWord(s string) string {
	word := clean(s, nameMax)
	if !plainWord.MatchString(word) {
		word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	if strings.HasPrefix(s, "-") {
		return "-- " + word
	}
	return word
}
