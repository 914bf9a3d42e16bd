package enginetest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"tenaq/internal/engine"
)

// A Step is one command of a script, with the lines that follow it; batches have a line for each
// entry.
type Step struct {
	Pos   string // where it stands, for complaints
	Text  string // the command as it was written
	Lines []string

	read *reading // what Text and Lines say, if it is known
}

// A reading is what the text of a step says. Several players that play the same step share it,
// since taking the text apart takes as long as carrying out what it says.
type reading struct {
	command string
	list    []datadriven.CmdArg
	entries [][]datadriven.CmdArg // of the lines that are entries of a batch
}

// prepared returns the step with its reading. A text that cannot be read is left for Play to
// complain about.
func (s Step) prepared() Step {
	command, a, err := parseArgs(s.Text)
	if err != nil {
		return s
	}
	s.read = &reading{command: command, list: a.list}
	if strings.HasSuffix(command, "-batch") {
		for _, line := range s.Lines {
			b, err := parseEntry(line)
			if err != nil {
				s.read = nil
				return s
			}
			s.read.entries = append(s.read.entries, b.list)
		}
	}
	return s
}

// args returns the command of the step and its arguments.
func (s Step) args() (command string, a *args, err error) {
	if s.read != nil {
		return s.read.command, &args{list: s.read.list, entries: s.read.entries}, nil
	}
	return parseArgs(s.Text)
}

// String returns the step as it stands in a script, without its answer.
func (s Step) String() string {
	return strings.Join(append([]string{s.Text}, s.Lines...), "\n")
}

// stepOf returns the step of a case that datadriven has read.
func stepOf(d *datadriven.TestData) Step {
	s := Step{Pos: d.Pos, Text: d.Cmd}
	for _, a := range d.CmdArgs {
		s.Text += " " + a.Key
		switch {
		case len(a.Vals) == 1 && !strings.Contains(a.Vals[0], " ") &&
			!strings.HasPrefix(a.Vals[0], "("):
			s.Text += "=" + a.Vals[0]
		case len(a.Vals) > 0:
			s.Text += "=(" + strings.Join(a.Vals, ", ") + ")"
		}
	}
	if d.Input != "" {
		s.Lines = strings.Split(d.Input, "\n")
	}
	return s
}

// args are the arguments of a step or of an entry line. Every argument must be asked for: what is
// left over at the end is a mistake of the script.
type args struct {
	list    []datadriven.CmdArg
	entries [][]datadriven.CmdArg // of the lines that follow, if they were read before
	bad     error
}

func parseArgs(line string) (cmd string, a *args, err error) {
	cmd, list, err := datadriven.ParseLine(line)
	return cmd, &args{list: list}, err
}

// parseEntry reads the line of a batch entry, which has arguments only.
func parseEntry(line string) (*args, error) {
	_, a, err := parseArgs("entry " + line)
	return a, err
}

// batch reads the entries of a batch from the lines that follow it.
func (a *args) batch(lines []string, read func(*args)) error {
	for i, line := range lines {
		b := &args{}
		if i < len(a.entries) {
			b.list = a.entries[i]
		} else {
			var err error
			if b, err = parseEntry(line); err != nil {
				return err
			}
		}
		read(b)
		if err := b.done(); err != nil {
			return err
		}
	}
	return nil
}

// drop removes an argument and leaves the array alone, which may be shared.
func (a *args) drop(i int) {
	if i == 0 {
		a.list = a.list[1:]
		return
	}
	a.list = append(a.list[:i:i], a.list[i+1:]...)
}

func (a *args) take(key string) (vals []string, ok bool) {
	for i, arg := range a.list {
		if arg.Key == key {
			a.drop(i)
			return arg.Vals, true
		}
	}
	return nil, false
}

// complain notes a mistake of the script; the first one counts.
func (a *args) complain(format string, v ...any) {
	if a.bad == nil {
		a.bad = fmt.Errorf(format, v...)
	}
}

// value spells out the shorthands for what a script cannot hold literally: "\x00" in quotes is a Go
// string, and x*300 is 300 times x.
func (a *args) value(s string) string {
	if strings.HasPrefix(s, `"`) {
		text, err := strconv.Unquote(s)
		if err != nil {
			a.complain("bad quoted text %s", s)
		}
		return text
	}
	if c, count, ok := strings.Cut(s, "*"); ok && c != "" {
		if n, err := strconv.Atoi(count); err == nil && n >= 0 && n <= 4<<20 {
			return strings.Repeat(c, n)
		}
	}
	return s
}

// flag reports whether an argument without a value is there.
func (a *args) flag(key string) bool {
	_, ok := a.take(key)
	return ok
}

// text reads an argument whose absence means something.
func (a *args) text(key string) engine.Text {
	vals, ok := a.take(key)
	if !ok {
		return engine.Text{}
	}
	return engine.Text{Value: a.value(strings.Join(vals, ", ")), Set: true}
}

func (a *args) number(key string) engine.Int {
	vals, ok := a.take(key)
	if !ok {
		return engine.Int{}
	}
	n, err := strconv.ParseInt(strings.Join(vals, ","), 10, 64)
	if err != nil {
		a.complain("%s=%s is not a number", key, strings.Join(vals, ","))
	}
	return engine.Int{Value: n, Set: true}
}

// millis reads a duration, such as 90s or 1h30m.
func (a *args) millis(key string, def time.Duration) int64 {
	vals, ok := a.take(key)
	if !ok {
		return def.Milliseconds()
	}
	d, err := time.ParseDuration(strings.Join(vals, ","))
	if err != nil {
		a.complain("%s=%s is not a duration", key, strings.Join(vals, ","))
	}
	return d.Milliseconds()
}

func (a *args) values(key string) []string {
	vals, _ := a.take(key)
	return a.all(vals)
}

func (a *args) all(vals []string) (values []string) {
	for _, v := range vals {
		values = append(values, a.value(v))
	}
	return values
}

// word takes the first argument that has no value.
func (a *args) word() string {
	for i, arg := range a.list {
		if len(arg.Vals) == 0 {
			a.drop(i)
			return a.value(arg.Key)
		}
	}
	return ""
}

// pairs takes every argument that is left.
func (a *args) pairs() (keys, values []string) {
	for _, arg := range a.list {
		keys = append(keys, a.value(arg.Key))
		values = append(values, a.value(strings.Join(arg.Vals, ", ")))
	}
	a.list = nil
	return keys, values
}

// done returns the first mistake that was found.
func (a *args) done() error {
	for _, arg := range a.list {
		a.complain("unknown argument %s", arg.Key)
	}
	return a.bad
}

// queue reads the name of a queue. The account is always the same one unless the script says
// another.
func (a *args) queue() (name engine.QueueName, set bool) {
	t := a.text("q")
	return engine.QueueName{Account: a.account(), Name: t.Value}, t.Set
}

const accountDefault = "000000000000"

func (a *args) account() string {
	if t := a.text("account"); t.Set {
		return t.Value
	}
	return accountDefault
}

// attributes reads user or system attributes. Each is name:type=value. The value goes where the
// type says; name:type:s=value and :b= put it into the text or the bytes, :sb= into both, and :l
// makes it a list. An attribute without a value or a type is one that lacks it.
func (a *args) attributes(key string) (list []engine.EntryAttribute) {
	vals, _ := a.take(key)
	for _, v := range vals {
		head, value, has := strings.Cut(v, "=")
		parts := strings.SplitN(head, ":", 3)
		attr := engine.EntryAttribute{Name: a.value(parts[0])}
		place := "s"
		if len(parts) > 1 && parts[1] != "" {
			attr.Type = engine.Text{Value: a.value(parts[1]), Set: true}
			if strings.HasPrefix(parts[1], "Binary") {
				place = "b"
			}
		}
		if len(parts) > 2 {
			place = parts[2]
		}
		value = a.value(value)
		if has && strings.Contains(place, "s") {
			attr.String = engine.Text{Value: value, Set: true}
		}
		if has && strings.Contains(place, "b") {
			attr.Binary, attr.HasBinary = []byte(value), true
		}
		attr.HasList = strings.Contains(place, "l")
		list = append(list, attr)
	}
	return list
}

// call reads what call a send belongs to: call=ID, and try=N for an attempt after the first. What
// is sent is a part of it.
func (a *args) call(entries ...engine.Entry) (v engine.Invocation) {
	id, try := a.text("call"), a.number("try")
	if !id.Set {
		return v
	}
	what := id.Value
	for _, e := range entries {
		what += fmt.Sprintf(" %d:%s", len(e.Body.Value), e.Body.Value)
	}
	return engine.Invocation{Hash: engine.HashInvocation([]byte(what)), Later: try.Value > 1}
}

// entry reads a message that is to be sent.
func (a *args) entry() engine.Entry {
	e := engine.Entry{
		ID:         a.text("id"),
		Body:       a.text("body"),
		Attributes: a.attributes("attr"),
		System:     a.attributes("sys"),
		Delay:      a.number("delay"),
		Group:      a.text("group"),
		Dedup:      a.text("dedup"),
		Sender:     a.text("sender").Value,
		Trace:      a.text("trace").Value,
	}
	if size := a.number("size"); size.Set {
		e.Body = engine.Text{Value: filler(int(size.Value)), Set: true}
	}
	e.BodyMD5 = md5Of(e.Body.Value)
	return e
}
