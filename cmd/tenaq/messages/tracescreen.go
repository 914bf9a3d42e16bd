package messages

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/internal/work/timeline"
)

// The screen of a trace: what is true now, what happened, and what cannot be known. It has no line
// of more than screenWidth columns, so that it fits every terminal.
const screenWidth = 80

// print writes the screen.
func (t *traced) print(a *cli.App) error {
	var b strings.Builder
	on, off := a.Bold()
	b.WriteString(on + strings.Join(wrap(t.asked, screenWidth), "\n") + off + "\n")
	for _, line := range t.present() {
		paragraph(&b, fmt.Sprintf("%-11s", line[0]), line[1])
	}
	t.printEvents(a, &b)
	if len(t.Unknown) > 0 {
		b.WriteString("\nnot shown\n")
		for _, text := range t.notShown() {
			paragraph(&b, "  ", text)
		}
	}
	_, err := io.WriteString(a.Stdout, b.String())
	return err
}

// paragraph writes text beside a head, over as many lines as it takes.
func paragraph(b *strings.Builder, head, text string) {
	indent := strings.Repeat(" ", utf8.RuneCountInString(head))
	for i, line := range wrap(text, screenWidth-len(indent)) {
		if i > 0 {
			head = indent
		}
		b.WriteString(strings.TrimRight(head+line, " ") + "\n")
	}
}

// wrap cuts foreign text into lines of at most width columns, between words where it can. Nothing
// in it drives the terminal.
func wrap(text string, width int) (lines []string) {
	rest := []rune(cli.OneLine(text))
	for len(rest) > width {
		cut := width
		for cut > width/2 && rest[cut] != ' ' {
			cut--
		}
		if rest[cut] != ' ' {
			cut = width
		}
		lines = append(lines, strings.TrimRight(string(rest[:cut]), " "))
		rest = []rune(strings.TrimLeft(string(rest[cut:]), " "))
	}
	return append(lines, string(rest))
}

// present says what is true now, in lines with a head.
func (t *traced) present() (lines [][2]string) {
	add := func(head, format string, args ...any) {
		lines = append(lines, [2]string{head, fmt.Sprintf(format, args...)})
	}
	for _, key := range t.Keys {
		if key != t.asked && !slices.Contains(t.Lineages, key) {
			add("key", "%s", key)
		}
	}
	for _, r := range t.Registrations {
		state := map[claims.State]string{claims.Completed: "sent", claims.Held: "being sent",
			claims.Failed: "not sent: " + r.Reason, claims.Released: "not sent"}[r.State]
		if r.LeaseOver {
			state = "not known to be sent: its producer has gone"
		}
		add("registered", "for %s%s, %s", r.Queue, generationText(r.Generation),
			cmp.Or(state, string(r.State)))
	}
	for i := range t.Rows {
		add("outbox row", "%s", t.rowText(&t.Rows[i]))
		add("", "%s", t.Rows[i].ID)
	}
	for i := range t.Claims {
		add("claim", "%s", t.claimText(&t.Claims[i]))
	}
	if len(t.Claims) == 0 {
		add("claim", "none")
	}
	for i := range t.Messages {
		add("message", "%s", messageText(&t.Messages[i]))
		add("", "%s", t.Messages[i].ID)
	}
	if len(t.Messages) == 0 && t.server.URL != "" {
		add("message", "%s", t.gone())
	}
	return lines
}

// gone says what became of the latest message, where none is left.
func (t *traced) gone() string {
	for i := len(t.Events) - 1; i >= 0; i-- {
		switch e := &t.Events[i]; e.What {
		case "deleted", "expired", "removed":
			return fmt.Sprintf("%s from %s, %s", e.What, e.Queue, t.ago(e.At))
		}
	}
	return "not in any queue that was looked at"
}

func generationText[N int | uint64](n N) string {
	return cli.OrEmpty(n > 0, fmt.Sprintf(", generation %d", n))
}

func (t *traced) claimText(c *timeline.Claim) string {
	text := string(c.State)
	switch {
	case c.LeaseOver:
		text = "held, lease expired: no worker has it"
	case c.State == claims.Held:
		text = fmt.Sprintf("held, %s of the lease left",
			cli.RoughDuration(time.Duration(c.RemainingMS)*time.Millisecond))
	case c.State == claims.Parked:
		text = "awaits a decision: tenaq claims settle or release"
	case c.AgeMS != nil:
		text += " " + cli.AgeText(time.Duration(*c.AgeMS)*time.Millisecond) + " ago"
	}
	text += cli.OrEmpty(c.Owner != "", " by "+c.Owner) + generationText(c.Generation) +
		cli.OrEmpty(c.Attempts > 1, ", attempt "+strconv.Itoa(c.Attempts))
	switch {
	case c.Result != nil:
		text += ", result " + *c.Result
	case c.ResultBytes > 0:
		text += fmt.Sprintf(", result of %d bytes", c.ResultBytes)
	}
	return text + cli.OrEmpty(c.Reason != "", ": "+c.Reason)
}

func messageText(m *cli.FoundMessage) string {
	text := "in " + m.Queue + ", " + strings.ReplaceAll(m.State, "_", " ")
	if later := m.Visible(); later != "" {
		text += ", visible " + later
	}
	text += fmt.Sprintf(", %s", cli.Counted(m.Receives, "receive", "receives"))
	return text + generationText(uint64(m.Generation)) + cli.OrEmpty(m.Reason != "", ": "+m.Reason)
}

// names are what the screen calls what happened. Others are shown as they are.
var names = map[string]string{timeline.Dead: "dead letter", timeline.Abandoned: "lease expired",
	"awaiting_decision": "undecided", "send_failed": "send failed", rowWritten: "row written",
	rowSetAside: "set aside"}

// good and bad are what stands out on a terminal.
var (
	good = []string{"completed", "deleted"}
	bad  = []string{timeline.Dead, timeline.Abandoned, "awaiting_decision", "send_failed", "failed",
		"exhausted", "expired", "removed", timeline.Arrived, rowSetAside}
)

// printEvents writes a line for each event, and one for each day.
func (t *traced) printEvents(a *cli.App, b *strings.Builder) {
	ids := make(map[string]bool)
	for i := range t.Events {
		for _, id := range []string{t.Events[i].Message, t.Events[i].New} {
			ids[id] = ids[id] || id != ""
		}
	}
	delete(ids, "")
	day := ""
	for i := range t.Events {
		e := &t.Events[i]
		if e.At != nil && e.At.UTC().Format(time.DateOnly) != day {
			day = e.At.UTC().Format(time.DateOnly)
			on, off := a.Bold()
			b.WriteString("\n" + on + day + " UTC" + off + "\n")
		}
		clock, ago := " time unknown", ""
		if e.At != nil {
			clock = cmp.Or(cli.OrEmpty(e.Clock == "client" || e.Clock == clockOutbox, "~"), " ") +
				e.At.UTC().Format("15:04:05.000")
			ago = t.ago(e.At)
		}
		what := cmp.Or(names[e.What], e.What)
		colour := cli.Colour("")
		switch {
		case slices.Contains(good, e.What):
			colour = cli.Green
		case slices.Contains(bad, e.What), e.Verdict == "poison":
			colour = cli.Red
		}
		// The widths are counted without the colours.
		head := fmt.Sprintf("%-13s  %-11s %-11s  ", clock, ago, cli.FirstWords(what, 11))
		if len(ids) > 1 {
			id, _, _ := strings.Cut(e.Message, "-")
			head += fmt.Sprintf("%-8.8s  ", cli.OneLine(id))
		}
		var lines strings.Builder
		paragraph(&lines, head, describe(e))
		text := lines.String()
		if colour != "" {
			text = strings.Replace(text, what, a.Painted(colour, what), 1)
		}
		b.WriteString(text)
	}
}

// ago says how long before the trace something was.
func (t *traced) ago(at *time.Time) string {
	if at == nil {
		return "at an unknown time"
	}
	d := t.Now.Sub(*at)
	if d < time.Second {
		return "now"
	}
	return cli.RoughDuration(d) + " ago"
}

// describe says where something happened, and why.
func describe(e *timeline.Event) string {
	var parts []string
	add := func(when bool, format string, args ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	switch {
	case e.To != "" && e.Queue != "":
		add(true, "%s to %s", e.Queue, e.To)
	case e.To != "":
		add(true, "to %s", e.To)
	default:
		add(e.Queue != "", "%s", e.Queue)
	}
	id, _, _ := strings.Cut(e.New, "-")
	add(e.New != "", "as %s", id)
	switch {
	case e.From != "" && e.From == e.Queue:
		add(true, "brought back by a client")
	case e.From != "" && e.What == timeline.Sent:
		add(true, "dead letter of %s", e.From)
		add(e.Attempts > 0, "%s", cli.Counted(e.Attempts, "attempt", "attempts"))
	case e.From != "":
		add(true, "came from %s", e.From)
	}
	add(e.Count > 0, "%s", cli.Counted(int64(e.Count), "receive at an unknown time",
		"receives at unknown times"))
	add(e.Receive > 0 && e.What == timeline.Received, "receive %d", e.Receive)
	add(e.Fence > 0 && e.Ledger == "" && e.What == timeline.Received, "fence %d", e.Fence)
	add(e.Generation > 0, "generation %d", e.Generation)
	add(e.Verdict != "", "%s", e.Verdict)
	add(e.Owner != "", "by %s", e.Owner)
	add(e.Ledger != "" && e.Attempts > 1, "attempt %d", e.Attempts)
	text := strings.Join(parts, ", ")
	why := strings.Trim(e.Class+": "+e.Text, ": ")
	if why == "" {
		return text
	}
	return strings.TrimPrefix(text+": "+why, ": ")
}

// notShown says what cannot be known, the queues with the same reason together.
func (t *traced) notShown() (texts []string) {
	queues := make(map[notKnown][]string)
	var order []notKnown
	for _, u := range t.Unknown {
		of := u
		of.Queue = ""
		if _, met := queues[of]; !met {
			order = append(order, of)
		}
		queues[of] = append(queues[of], u.Queue)
	}
	for _, u := range order {
		names := strings.Trim(strings.Join(queues[u], ", "), ", ")
		switch u.Why {
		case "off":
			u.Text = "no history is kept of " + names + ", so messages that ended there are not " +
				"known; to keep one: tenaq queue tag QUEUE tenaq:history=7d"
		default:
			u.Text = cmp.Or(names, u.Part) + ": " + u.Text
		}
		texts = append(texts, u.Text)
	}
	return texts
}
