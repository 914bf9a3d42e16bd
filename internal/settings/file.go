package settings

import (
	"errors"
	"fmt"
	"io"
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

// A configFile is what a configuration file says. It is read by hand from the tree of YAML nodes
// and not into a struct: so every complaint can name the line, an unknown key gets a suggestion,
// and an account of 000000000000 stays the twelve digits that it is.
type configFile struct {
	Path    string
	values  map[string]fileValue
	Queues  []DeclaredQueue
	Redrive *RedriveSection // nil when there is none
	Actions map[string]monitor.Action
}

type fileValue struct {
	text string
	line int
}

// A DeclaredQueue is a queue that ought to exist.
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

func ReadConfigFile(path string) (*configFile, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, cli.Usagef("configuration: %v", err)
	}
	f := &configFile{Path: path, values: map[string]fileValue{}}
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

// at makes a complaint about a line.
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

// A pair is an entry of a YAML mapping.
type pair struct {
	key   string
	line  int
	value *yaml.Node
}

// pairs reads a mapping. YAML itself forbids a key that occurs twice, the library lets it pass.
func (f *configFile) pairs(n *yaml.Node, what string) ([]pair, error) {
	n = cli.ResolveAlias(n)
	if isNull(n) {
		return nil, nil
	}
	if n.Kind != yaml.MappingNode {
		return nil, f.at(n.Line, "%s must be a mapping of keys to values", what)
	}
	var pairs []pair
	for i := 0; i < len(n.Content); i += 2 {
		key := cli.ResolveAlias(n.Content[i])
		if key.Kind != yaml.ScalarNode {
			return nil, f.at(key.Line, "%s: a key must be a word", what)
		}
		double := func(p pair) bool { return p.key == key.Value }
		if j := slices.IndexFunc(pairs, double); j >= 0 {
			return nil, f.at(key.Line, "%s occurs a second time; the first is in line %d",
				key.Value, pairs[j].line)
		}
		pairs = append(pairs, pair{key.Value, key.Line, cli.ResolveAlias(n.Content[i+1])})
	}
	return pairs, nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

func (f *configFile) read(root *yaml.Node) error {
	pairs, err := f.pairs(root, "the configuration")
	if err != nil {
		return err
	}
	known := append(settingNames(), "queues", "redrive", "actions")
	for _, p := range pairs {
		switch {
		case p.key == "queues":
			err = f.readQueues(p.value)
		case p.key == "redrive":
			err = f.readRedrive(p.line, p.value)
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

// readSetting reads a setting and checks it, so that a mistake is found also where a flag overrides
// it.
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
			if n = cli.ResolveAlias(n); n.Kind != yaml.ScalarNode || isNull(n) {
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
		q, err := f.readQueue(cli.ResolveAlias(entry))
		if err != nil {
			return err
		}
		for _, other := range f.Queues {
			if other.Name == q.Name {
				return f.at(q.Line, "queue %s is declared a second time; the first is in line %d",
					q.Name, other.Line)
			}
		}
		f.Queues = append(f.Queues, q)
	}
	return nil
}

func (f *configFile) readQueue(n *yaml.Node) (DeclaredQueue, error) {
	q := DeclaredQueue{Line: n.Line}
	pairs, err := f.pairs(n, "a queue")
	if err != nil {
		return q, err
	}
	for _, p := range pairs {
		switch p.key {
		case "name":
			q.Name, err = f.queueName(p)
		case "attributes":
			q.Attributes, err = f.attributes(p.value)
		case "tags":
			q.Tags, err = f.tags(p.value)
		default:
			err = f.at(p.line, "a queue has no %q%s; it has name, attributes and tags", p.key,
				cli.DidYouMean(p.key, []string{"name", "attributes", "tags"}))
			if cli.IsSettable(p.key) {
				err = f.at(p.line, "%s belongs under attributes:", p.key)
			}
		}
		if err != nil {
			return q, err
		}
	}
	if q.Name == "" {
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

func (f *configFile) attributes(n *yaml.Node) (map[string]string, error) {
	pairs, err := f.pairs(n, "attributes")
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

// attributeText makes a string of a value, as SQS wants it: a number without underscores and
// hexadecimal digits, and of a mapping JSON.
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
		b, err := cli.YAMLToJSON(n)
		if err != nil {
			return "", fmt.Errorf("attribute %s: %v", name, err)
		}
		return string(b), nil
	}
	return "", fmt.Errorf("attribute %s must be a single value", name)
}

func (f *configFile) tags(n *yaml.Node) (map[string]string, error) {
	pairs, err := f.pairs(n, "tags")
	if err != nil {
		return nil, err
	}
	m := map[string]string{}
	for _, p := range pairs {
		switch {
		case p.value.Kind != yaml.ScalarNode:
			return nil, f.at(p.line, "tag %s must be a single value", p.key)
		case !isNull(p.value): // a tag may be empty
			m[p.key] = p.value.Value
		default:
			m[p.key] = ""
		}
	}
	return m, nil
}
