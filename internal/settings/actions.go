package settings

import (
	"errors"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"tenaq/internal/cli"
	"tenaq/internal/observe/monitor"
)

// The section actions of a configuration file declares what alarms may run. Only the file can do
// that, because actions run with the rights of the server:
//
//	actions:
//	  team:  {webhook: https://hooks.example.com/services/T1}
//	  pager: {command: [/usr/local/bin/page, --urgent]}
//	  copy:  {queue: alarm-events}

var actionNamePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

func (f *configFile) readActions(n *yaml.Node) error {
	pairs, err := f.pairs(n, "actions")
	if err != nil {
		return err
	}
	f.Actions = make(map[string]monitor.Action)
	for _, p := range pairs {
		if !actionNamePattern.MatchString(p.key) || p.key == "log" {
			return f.at(p.line, "%q cannot be the name of an action: use letters, digits, hyphens and underscores; log is built in", p.key)
		}
		if f.Actions[p.key], err = f.readAction(p); err != nil {
			return err
		}
	}
	return nil
}

// readAction reads one action and checks that it can be run.
func (f *configFile) readAction(of pair) (a monitor.Action, err error) {
	ways := 0
	way := func(read func(pair) error) func(pair) error {
		return func(p pair) error {
			ways++
			return read(p)
		}
	}
	err = f.mapping(of.value, "action "+of.key, fields{
		"webhook": way(setTo(&a.Webhook, parsed(f, checkWebhook))),
		"webhook-file": way(setTo(&a.Webhook, parsed(f, func(path string) (string, error) {
			b, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			return checkWebhook(strings.TrimSpace(string(b)))
		}))),
		"queue":   way(setTo(&a.Queue, f.queueName)),
		"command": way(setTo(&a.Command, f.readCommand)),
		"format": setTo(&a.Whole, parsed(f, func(format string) (bool, error) {
			_, err := cli.OneOf("slack", "json")(format)
			return format == "json", err
		})),
	}, noHint)
	switch {
	case err != nil:
		return a, err
	case ways != 1:
		return a, f.at(of.line, "action %s must have one of webhook, webhook-file, queue and command", of.key)
	case a.Whole && a.Webhook == "":
		return a, f.at(of.line, "action %s: format is for a webhook", of.key)
	}
	return a, nil
}

// checkWebhook does not show the URL, which may be a secret.
func checkWebhook(v string) (string, error) {
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", errors.New("it is not an http or https URL")
	}
	return v, nil
}

// readCommand reads a list of words. No shell looks at them.
func (f *configFile) readCommand(p pair) ([]string, error) {
	var words []string
	if p.value.Kind == yaml.SequenceNode {
		for _, n := range p.value.Content {
			if n = resolveAlias(n); n.Kind != yaml.ScalarNode {
				words = nil
				break
			}
			words = append(words, n.Value)
		}
	}
	if len(words) == 0 {
		return nil, f.at(p.line, "command must be a list of words, such as [/usr/local/bin/page, --urgent]")
	}
	path, err := exec.LookPath(words[0])
	if err != nil {
		return nil, f.at(p.line, "command: %v", err)
	}
	words[0] = path
	return words, nil
}

// ActionNames lists the declared actions.
func (f *configFile) ActionNames() []string { return slices.Sorted(maps.Keys(f.Actions)) }
