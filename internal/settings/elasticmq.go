package settings

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"tenaq/internal/cli"
)

// A configuration of ElasticMQ, with the ending .conf, declares queues too. Of it tenaq reads
// queues, and the region and account that their ARNs have. The rest is about ElasticMQ's own
// addresses, storage and limits. What tenaq cannot do for a queue is an error, never left out.
//
// The format is HOCON (github.com/lightbend/config, HOCON.md). This reads what such files use:
// objects, dotted and quoted keys, numbers with units, comments, and the include of ElasticMQ's
// defaults. Substitutions and arrays are errors where their value would matter.

// readElasticMQ reads such a configuration as if it were one of tenaq.
func (f *configFile) readElasticMQ(text string) error {
	r := &hocon{f: f, in: text, line: 1}
	root := &hoconObject{}
	if err := r.object(root, true); err != nil {
		return err
	}
	region, account := cli.DefaultRegion, "000000000000"
	node := mappingNode(1)
	aws, queues := root.find("aws"), root.find("queues")
	for _, section := range []*hoconField{aws, queues} {
		if odd := section.findOdd(); odd != nil {
			return f.at(odd.line, "%s: %s is an array, a substitution or a text in three quotes, which tenaq does not read; write the value itself", odd.key, odd.text)
		}
	}
	if aws != nil && aws.object != nil {
		for key, to := range map[string]*string{"region": &region, "accountId": &account} {
			if v := aws.object.find(key); v != nil {
				*to = v.text
			}
		}
		addNode(node, "region", textNode(aws.line, region))
		addNode(node, "account", textNode(aws.line, account))
	}
	if queues == nil || queues.object == nil {
		return cli.Usagef("%s declares no queues; it needs an object queues", f.Path)
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Line: queues.line}
	for _, q := range queues.object.fields {
		entry, err := f.elasticQueue(q, queues.object, func(name string) string {
			return "arn:aws:sqs:" + region + ":" + account + ":" + name
		})
		if err != nil {
			return err
		}
		list.Content = append(list.Content, entry)
	}
	addNode(node, "queues", list)
	return f.read(node)
}

// elasticTimes are the attributes that ElasticMQ declares as durations.
var elasticTimes = map[string]string{"defaultVisibilityTimeout": "VisibilityTimeout",
	"delay": "DelaySeconds", "receiveMessageWait": "ReceiveMessageWaitTimeSeconds"}

// elasticQueue returns the queue that a field of the object queues declares.
func (f *configFile) elasticQueue(
	q *hoconField, all *hoconObject, arn func(name string) string,
) (*yaml.Node, error) {
	if q.object == nil {
		return nil, f.at(q.line, "queue %s must be an object, such as %s { }", q.key, q.key)
	}
	entry, attributes, tags := mappingNode(q.line), mappingNode(q.line), mappingNode(q.line)
	addNode(entry, "name", textNode(q.line, q.queueName()))
	for _, p := range q.object.fields {
		switch p.key {
		case "fifo", "created", "lastModified":
		case "defaultVisibilityTimeout", "delay", "receiveMessageWait":
			seconds, err := p.seconds()
			if err != nil {
				return nil, f.at(p.line, "%s: %v", p.key, err)
			}
			addNode(attributes, elasticTimes[p.key],
				textNode(p.line, strconv.FormatInt(seconds, 10)))
		case "contentBasedDeduplication":
			if p.text == "true" {
				addNode(attributes, "ContentBasedDeduplication", textNode(p.line, p.text))
			}
		case "deadLettersQueue":
			policy, err := f.elasticRedrive(p, all, arn)
			if err != nil {
				return nil, err
			}
			addNode(attributes, "RedrivePolicy", textNode(p.line, policy))
		case "tags":
			if p.object == nil {
				return nil, f.at(p.line, "tags must be an object")
			}
			for _, t := range p.object.fields {
				addNode(tags, t.key, textNode(t.line, t.text))
			}
		case "copyTo", "moveTo":
			if p.text != "" {
				return nil, f.at(p.line, "tenaq does not pass messages on to other queues; remove %s, and let a consumer do it", p.key)
			}
		default:
			return nil, f.at(p.line, "a queue of ElasticMQ has no %q; remove the line", p.key)
		}
	}
	addNode(entry, "attributes", attributes)
	addNode(entry, "tags", tags)
	return entry, nil
}

func (f *configFile) elasticRedrive(
	p *hoconField, all *hoconObject, arn func(name string) string,
) (string, error) {
	var name, count *hoconField
	if p.object != nil {
		name, count = p.object.find("name"), p.object.find("maxReceiveCount")
	}
	if name == nil || count == nil {
		return "", f.at(p.line, "deadLettersQueue needs name and maxReceiveCount")
	}
	n, err := strconv.Atoi(count.text)
	if err != nil {
		return "", f.at(count.line, "maxReceiveCount: %q is not a whole number", count.text)
	}
	target := name.text
	if q := all.find(target); q != nil {
		target = q.queueName()
	}
	policy, err := json.Marshal(map[string]any{"deadLetterTargetArn": arn(target),
		"maxReceiveCount": n})
	return string(policy), err
}

// queueName is the name that ElasticMQ gives to a queue: that of a FIFO queue ends in .fifo.
func (q *hoconField) queueName() string {
	if q.object == nil {
		return q.key
	}
	if fifo := q.object.find("fifo"); fifo != nil && fifo.text == "true" {
		return strings.TrimSuffix(q.key, ".fifo") + ".fifo"
	}
	return q.key
}

// hoconUnits are the units of durations. Without a unit, a number is in milliseconds.
var hoconUnits = map[string]time.Duration{
	"": time.Millisecond,

	"ns": time.Nanosecond, "nano": time.Nanosecond, "nanosecond": time.Nanosecond,
	"us": time.Microsecond, "micro": time.Microsecond, "microsecond": time.Microsecond,
	"ms": time.Millisecond, "milli": time.Millisecond, "millisecond": time.Millisecond,
	"s": time.Second, "second": time.Second,
	"m": time.Minute, "minute": time.Minute,
	"h": time.Hour, "hour": time.Hour,
	"d": 24 * time.Hour, "day": 24 * time.Hour,
}

// seconds reads a duration.
func (p *hoconField) seconds() (int64, error) {
	digits := strings.TrimRight(p.text, "abcdefghijklmnopqrstuvwxyz ")
	word := strings.TrimSpace(p.text[len(digits):])
	unit, known := hoconUnits[word]
	if !known {
		unit, known = hoconUnits[strings.TrimSuffix(word, "s")]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || !known || n < 0 || n > int64(1000*24*time.Hour/unit) {
		return 0, fmt.Errorf("%q is not a duration such as 30 seconds", p.text)
	}
	return int64(time.Duration(n) * unit / time.Second), nil
}

func mappingNode(line int) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: line}
}

func textNode(line int, text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: line}
}

func addNode(mapping *yaml.Node, key string, value *yaml.Node) {
	mapping.Content = append(mapping.Content, textNode(value.Line, key), value)
}

// A hoconObject has fields in the order of the file.
type hoconObject struct{ fields []*hoconField }

// A hoconField has a text or an object.
type hoconField struct {
	key, text string
	odd       bool // its value is one that this does not read
	object    *hoconObject
	line      int
}

// findOdd returns a field, of this one and those in it, whose value was not read; nil for none.
func (f *hoconField) findOdd() *hoconField {
	switch {
	case f == nil:
		return nil
	case f.odd:
		return f
	case f.object != nil:
		for _, inner := range f.object.fields {
			if odd := inner.findOdd(); odd != nil {
				return odd
			}
		}
	}
	return nil
}

func (o *hoconObject) find(key string) *hoconField {
	i := slices.IndexFunc(o.fields, func(f *hoconField) bool { return f.key == key })
	if i < 0 {
		return nil
	}
	return o.fields[i]
}

// set adds a field, or replaces an earlier one. Two objects become one.
func (o *hoconObject) set(f *hoconField) {
	was := o.find(f.key)
	switch {
	case was == nil:
		o.fields = append(o.fields, f)
	case was.object != nil && f.object != nil:
		for _, inner := range f.object.fields {
			was.object.set(inner)
		}
	default:
		*was = *f
	}
}

// A hocon reader reads a file from its beginning to its end.
type hocon struct {
	f    *configFile
	in   string // what is left
	line int
}

func (r *hocon) failf(format string, args ...any) error { return r.f.at(r.line, format, args...) }

// take removes the next n bytes.
func (r *hocon) take(n int) (text string) {
	text, r.in = r.in[:n], r.in[n:]
	r.line += strings.Count(text, "\n")
	return text
}

// takeLine removes what is left of the line.
func (r *hocon) takeLine() string {
	if end := strings.IndexByte(r.in, '\n'); end >= 0 {
		return r.take(end)
	}
	return r.take(len(r.in))
}

// skip removes white space and comments, and separators of fields if they may be there.
func (r *hocon) skip(separators bool) {
	for r.in != "" {
		switch c := r.in[0]; {
		case c == ' ' || c == '\t' || c == '\r', separators && (c == '\n' || c == ','):
			r.take(1)
		case c == '#' || strings.HasPrefix(r.in, "//"):
			r.takeLine()
		default:
			return
		}
	}
}

// object reads fields up to the closing brace, or up to the end of the file.
func (r *hocon) object(to *hoconObject, whole bool) error {
	for {
		r.skip(true)
		switch {
		case r.in == "" && whole:
			return nil
		case r.in == "":
			return r.failf("a closing brace is missing")
		case r.in[0] == '}' && !whole:
			r.take(1)
			return nil
		}
		if err := r.field(to); err != nil {
			return err
		}
	}
}

func (r *hocon) field(to *hoconObject) error {
	line := r.line
	path, err := r.path()
	if err != nil {
		return err
	}
	r.skip(false)
	valued := r.in != "" && strings.ContainsRune("=:{", rune(r.in[0]))
	if len(path) == 1 && path[0] == "include" && !valued {
		what := r.takeLine()
		if !strings.Contains(what, "classpath(") {
			return r.f.at(line, "cannot include %s; copy what it declares into this file",
				strings.TrimSpace(what))
		}
		return nil
	}
	for _, key := range path[:len(path)-1] {
		inner := &hoconField{key: key, object: &hoconObject{}, line: line}
		to.set(inner)
		to = cmp.Or(to.find(key).object, inner.object)
	}
	f := &hoconField{key: path[len(path)-1], line: line}
	if !valued {
		return r.failf("%s has no value", strings.Join(path, "."))
	}
	if r.in[0] != '{' {
		r.take(1)
		r.skip(false)
	}
	if err := r.value(f); err != nil {
		return err
	}
	to.set(f)
	return nil
}

// path reads a key. Outside of quotes, dots separate the keys of nested objects.
func (r *hocon) path() (path []string, err error) {
	for {
		var key string
		if strings.HasPrefix(r.in, `"`) {
			if key, err = r.quoted(); err != nil {
				return nil, err
			}
		} else {
			end := strings.IndexAny(r.in, " \t\r\n.=:{}[],\"#")
			if end < 0 {
				end = len(r.in)
			}
			if key = r.take(end); key == "" {
				return nil, r.failf("expected a key, found %.10q", r.in)
			}
		}
		path = append(path, key)
		if !strings.HasPrefix(r.in, ".") {
			return path, nil
		}
		r.take(1)
	}
}

func (r *hocon) quoted() (string, error) {
	literal, err := strconv.QuotedPrefix(r.in)
	if err != nil {
		return "", r.failf("a closing quote is missing")
	}
	text, err := strconv.Unquote(r.take(len(literal)))
	if err != nil {
		return "", r.failf("%s cannot be read", literal)
	}
	return text, nil
}

func (r *hocon) value(to *hoconField) (err error) {
	switch {
	case strings.HasPrefix(r.in, "{"):
		r.take(1)
		to.object = &hoconObject{}
		return r.object(to.object, false)
	case strings.HasPrefix(r.in, `"""`):
		return r.odd(to, `"""`, `"""`)
	case strings.HasPrefix(r.in, "["):
		return r.odd(to, "[", "]")
	case strings.HasPrefix(r.in, "${"):
		return r.odd(to, "${", "}")
	case strings.HasPrefix(r.in, `"`):
		to.text, err = r.quoted()
		return err
	}
	end := strings.IndexAny(r.in, "\n,}#")
	if end < 0 {
		end = len(r.in)
	}
	if comment := strings.Index(r.in[:end], "//"); comment >= 0 {
		end = comment
	}
	to.text = strings.TrimSpace(r.take(end))
	return nil
}

// odd takes a value that is not read. Arrays may be nested.
func (r *hocon) odd(to *hoconField, opening, closing string) error {
	to.odd, to.text = true, r.take(len(opening))
	for depth := 1; depth > 0; {
		switch {
		case r.in == "":
			return r.f.at(to.line, "%s: the closing %s is missing", to.key, closing)
		case strings.HasPrefix(r.in, closing):
			to.text += r.take(len(closing))
			depth--
		case strings.HasPrefix(r.in, opening):
			to.text += r.take(len(opening))
			depth++
		default:
			to.text += r.take(1)
		}
	}
	return nil
}
