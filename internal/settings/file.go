package settings

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"tenaq/internal/cli"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/server"
)

// A configFile is the content of a configuration file. It is read from the tree of YAML nodes, not
// into a struct: so each error names its line, an unknown key gets a suggestion, and the account
// 000000000000 keeps its digits.
type configFile struct {
	Path    string
	values  map[string]fileValue
	Queues  []DeclaredQueue
	Redrive *RedriveSection // nil when there is none
	Stores  []ClaimStore
	Actions map[string]monitor.Action
}

type fileValue struct {
	text string
	line int
}

// A DeclaredQueue is a queue of the file.
type DeclaredQueue struct {
	server.Queue
	Line int
}

// PlainQueues returns the queues without their places in the file.
func PlainQueues(declared []DeclaredQueue) (queues []server.Queue) {
	for _, q := range declared {
		queues = append(queues, q.Queue)
	}
	return queues
}

// ReadConfigFile reads and checks a configuration file. One whose name ends in .conf is of
// ElasticMQ.
func ReadConfigFile(path string) (*configFile, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, cli.Usagef("configuration: %v", err)
	}
	f := &configFile{Path: path, values: map[string]fileValue{}}
	if strings.HasSuffix(path, ".conf") {
		return f, f.readElasticMQ(string(b))
	}
	d := yaml.NewDecoder(strings.NewReader(string(b)))
	var doc yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return f, nil // nothing but comments
	case err != nil:
		return nil, f.yamlError(err)
	}
	var second yaml.Node
	if err := d.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, f.at(second.Line, "a configuration is one document; remove what follows ---")
	}
	if err := f.read(doc.Content[0]); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *configFile) at(line int, format string, args ...any) error {
	return cli.Usagef("%s:%d: %s", f.Path, line, fmt.Sprintf(format, args...))
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

func (f *configFile) yamlError(err error) error {
	text := err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		return cli.Usagef("%s:%s: %s", f.Path, m[1], text[len(m[0]):])
	}
	return cli.Usagef("%s: %s", f.Path, strings.TrimPrefix(text, "yaml: "))
}

type pair struct {
	key   string
	line  int
	value *yaml.Node
}

// pairs reads a mapping. YAML forbids a repeated key, but the library accepts it.
func (f *configFile) pairs(n *yaml.Node, what string) ([]pair, error) {
	n = resolveAlias(n)
	if isNull(n) {
		return nil, nil
	}
	if n.Kind != yaml.MappingNode {
		return nil, f.at(n.Line, "%s must be a mapping of keys to values", what)
	}
	var pairs []pair
	for i := 0; i < len(n.Content); i += 2 {
		key := resolveAlias(n.Content[i])
		if key.Kind != yaml.ScalarNode {
			return nil, f.at(key.Line, "%s: a key must be a word", what)
		}
		double := func(p pair) bool { return p.key == key.Value }
		if j := slices.IndexFunc(pairs, double); j >= 0 {
			return nil, f.at(key.Line, "%s is repeated; the first is in line %d",
				key.Value, pairs[j].line)
		}
		pairs = append(pairs, pair{key.Value, key.Line, resolveAlias(n.Content[i+1])})
	}
	return pairs, nil
}

// fields are the readers of the keys of a mapping.
type fields map[string]func(pair) error

// mapping reads a mapping that has only these keys. hint says more about another key; "" for none.
func (f *configFile) mapping(
	n *yaml.Node, what string, known fields, hint func(key string) string,
) error {
	pairs, err := f.pairs(n, what)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(known))
	for _, p := range pairs {
		if read := known[p.key]; read != nil {
			err = read(p)
		} else if more := hint(p.key); more != "" {
			err = f.at(p.line, "%s %s", p.key, more)
		} else {
			err = f.at(p.line, "%s has no %q%s", what, p.key,
				cmp.Or(cli.DidYouMean(p.key, names), "; it has "+strings.Join(names, ", ")))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func noHint(string) string { return "" }

// setTo reads the value of a key into a variable.
func setTo[V any](to *V, read func(pair) (V, error)) func(pair) error {
	return func(p pair) (err error) {
		*to, err = read(p)
		return err
	}
}

// parsed reads a single value with parse.
func parsed[V any](f *configFile, parse func(string) (V, error)) func(pair) (V, error) {
	return func(p pair) (v V, err error) {
		text, err := f.text(p)
		if err != nil {
			return v, err
		}
		if v, err = parse(text); err != nil {
			return v, f.at(p.line, "%s: %v", p.key, err)
		}
		return v, nil
	}
}

func (f *configFile) text(p pair) (string, error) {
	if p.value.Kind != yaml.ScalarNode || isNull(p.value) || p.value.Value == "" {
		return "", f.at(p.line, "%s must be a single value that is not empty", p.key)
	}
	return p.value.Value, nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func (f *configFile) read(root *yaml.Node) error {
	pairs, err := f.pairs(root, "the configuration")
	if err != nil {
		return err
	}
	known := append(settingNames(), "queues", "redrive", "claims", "actions")
	for _, p := range pairs {
		switch {
		case p.key == "queues":
			err = f.readQueues(p.value)
		case p.key == "redrive":
			err = f.readRedrive(p.line, p.value)
		case p.key == "claims":
			err = f.readStores(p)
		case p.key == "actions":
			err = f.readActions(p.value)
		case slices.Contains(known, p.key):
			err = f.readSetting(p)
		default:
			err = f.at(p.line, "unknown setting %q%s", p.key, cli.DidYouMean(p.key, known))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readSetting reads a setting and checks it, even if a flag overrides it.
func (f *configFile) readSetting(p pair) error {
	i := slices.IndexFunc(allSettings, func(s setting) bool { return s.name == p.key })
	text, err := f.settingText(p)
	if err == nil {
		err = allSettings[i].set(&settings{}, text)
	}
	if err != nil {
		return f.at(p.line, "%s: %v", p.key, err)
	}
	f.values[p.key] = fileValue{text, p.line}
	return nil
}

func (f *configFile) settingText(p pair) (string, error) {
	switch {
	case isNull(p.value):
		return "", errors.New("there is no value; remove the line for the default")
	case p.value.Kind == yaml.ScalarNode:
		return p.value.Value, nil
	case p.value.Kind == yaml.SequenceNode && isListSetting(p.key):
		var names []string
		for _, n := range p.value.Content {
			if n = resolveAlias(n); n.Kind != yaml.ScalarNode || isNull(n) {
				return "", errors.New("must be a list of names")
			}
			names = append(names, n.Value)
		}
		return strings.Join(names, ","), nil
	}
	return "", errors.New("must be a single value, not a list or a mapping")
}

func (f *configFile) readQueues(n *yaml.Node) error {
	if isNull(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		return f.at(n.Line, "queues must be a list, each entry beginning with - name:")
	}
	for _, entry := range n.Content {
		q, err := f.readQueue(resolveAlias(entry))
		if err != nil {
			return err
		}
		for _, other := range f.Queues {
			if other.Name == q.Name {
				return f.at(q.Line, "queue %s is declared twice; the first is in line %d",
					q.Name, other.Line)
			}
		}
		f.Queues = append(f.Queues, q)
	}
	return nil
}

func (f *configFile) readQueue(n *yaml.Node) (DeclaredQueue, error) {
	q := DeclaredQueue{Line: n.Line}
	err := f.mapping(n, "a queue", fields{
		"name":       setTo(&q.Name, f.queueName),
		"attributes": setTo(&q.Attributes, f.attributes),
		"tags":       setTo(&q.Tags, f.tags),
	}, func(key string) string {
		return cli.OrEmpty(cli.IsSettable(key), "belongs under attributes:")
	})
	switch {
	case err != nil:
		return q, err
	case q.Name == "":
		return q, f.at(q.Line, "a queue has no name")
	}
	q.Attributes = cli.ImpliedAttributes(q.Name, q.Attributes)
	return q, nil
}

var queueNamePattern = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.fifo)?$`)

func (f *configFile) queueName(p pair) (string, error) {
	name := p.value.Value
	if p.value.Kind != yaml.ScalarNode || len(name) > 80 || !queueNamePattern.MatchString(name) {
		return "", f.at(p.line, "%q is not a queue name: 1 to 80 letters, digits, hyphens and underscores, .fifo at the end of a FIFO queue", name)
	}
	return name, nil
}

func (f *configFile) attributes(of pair) (map[string]string, error) {
	pairs, err := f.pairs(of.value, "attributes")
	if err != nil {
		return nil, err
	}
	m := map[string]string{}
	for _, p := range pairs {
		value, err := attributeText(p.key, p.value)
		if err == nil {
			err = cli.CheckAttribute(p.key, value)
		}
		if err != nil {
			return nil, f.at(p.line, "%v", err)
		}
		m[p.key] = value
	}
	return m, nil
}

// attributeText formats a value for SQS: a number in decimal digits, a mapping as JSON.
func attributeText(name string, n *yaml.Node) (string, error) {
	switch {
	case isNull(n):
		return "", fmt.Errorf("attribute %s has no value", name)
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!int" && cli.KindOf(name) != cli.KindText:
		var i int64
		if err := n.Decode(&i); err != nil {
			return "", fmt.Errorf("attribute %s: %q is not a whole number", name, n.Value)
		}
		return strconv.FormatInt(i, 10), nil
	case n.Kind == yaml.ScalarNode:
		return n.Value, nil
	case n.Kind == yaml.MappingNode && cli.KindOf(name) == cli.KindJSON:
		b, err := yamlToJSON(n)
		if err != nil {
			return "", fmt.Errorf("attribute %s: %v", name, err)
		}
		return string(b), nil
	}
	return "", fmt.Errorf("attribute %s must be a single value", name)
}

func (f *configFile) tags(of pair) (map[string]string, error) {
	pairs, err := f.pairs(of.value, "tags")
	if err != nil {
		return nil, err
	}
	m := map[string]string{}
	for _, p := range pairs {
		if p.value.Kind != yaml.ScalarNode {
			return nil, f.at(p.line, "tag %s must be a single value", p.key)
		}
		if m[p.key] = p.value.Value; isNull(p.value) { // a tag may be empty
			m[p.key] = ""
		}
	}
	return m, nil
}
