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

// The section actions of a configuration file says what alarms may run. It stands in the file
// alone, for what it names is run with the rights of the server:
//
//	actions:
//	  team:  {webhook: https://hooks.example.com/services/T1}
//	  pager: {command: [/usr/local/bin/page, --urgent]}
//	  copy:  {queue: alarm-events}

var actionNamePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

var actionKeys = []string{"webhook", "webhook-file", "format", "queue", "command"}

func (f *configFile) readActions(n *yaml.Node) error {
	pairs, err := f.pairs(n, "actions")
	if err != nil {
		return err
	}
	f.Actions = make(map[string]monitor.Action)
	for _, p := range pairs {
		if !actionNamePattern.MatchString(p.key) || p.key == "log" {
			return f.at(p.line, "%q cannot be the name of an action: use letters, digits, hyphens and underscores, and leave log, which there always is, as it is", p.key)
		}
		if f.Actions[p.key], err = f.readAction(p); err != nil {
			return err
		}
	}
	return nil
}

// readAction reads one action, and makes sure that it can be run.
func (f *configFile) readAction(of pair) (a monitor.Action, err error) {
	pairs, err := f.pairs(of.value, "action "+of.key)
	if err != nil {
		return a, err
	}
	ways := 0
	for _, p := range pairs {
		if !slices.Contains(actionKeys, p.key) {
			return a, f.at(p.line, "an action has no %q%s; it has %s", p.key,
				cli.DidYouMean(p.key, actionKeys), strings.Join(actionKeys, ", "))
		}
		if p.key == "command" {
			a.Command, err = f.readCommand(p)
			ways++
		} else {
			err = f.readActionText(p, &a, &ways)
		}
		if err != nil {
			return a, err
		}
	}
	switch {
	case ways != 1:
		return a, f.at(of.line, "action %s must have one of webhook, webhook-file, queue and command", of.key)
	case a.Whole && a.Webhook == "":
		return a, f.at(of.line, "action %s: format is for a webhook", of.key)
	}
	return a, nil
}

func (f *configFile) readActionText(p pair, a *monitor.Action, ways *int) (err error) {
	value := p.value.Value
	if p.value.Kind != yaml.ScalarNode || value == "" {
		return f.at(p.line, "%s must be a single value", p.key)
	}
	switch p.key {
	case "format":
		a.Whole = value == "json"
		if value != "json" && value != "slack" {
			return f.at(p.line, "format %q is neither slack nor json", value)
		}
		return nil
	case "webhook":
		a.Webhook, err = value, checkWebhook(value)
	case "webhook-file":
		var b []byte
		if b, err = os.ReadFile(value); err == nil {
			a.Webhook = strings.TrimSpace(string(b))
			err = checkWebhook(a.Webhook)
		}
	case "queue":
		a.Queue, err = f.queueName(p)
	}
	if err != nil {
		return f.at(p.line, "%s: %v", p.key, err)
	}
	*ways++
	return nil
}

// checkWebhook does not show the URL: whoever knows it may post there.
func checkWebhook(v string) error {
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return errors.New("it is not an http or https URL")
	}
	return nil
}

// readCommand reads a list of words. No shell looks at them.
func (f *configFile) readCommand(p pair) ([]string, error) {
	var words []string
	if p.value.Kind == yaml.SequenceNode {
		for _, n := range p.value.Content {
			if n = cli.ResolveAlias(n); n.Kind != yaml.ScalarNode {
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
