package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"tenaq/internal/server"
)

// settingFlags are the flags of all settings and --config.
type settingFlags struct {
	config string
	values []*settingFlag
}

// A settingFlag is the flag of a setting. It keeps the text; reading it is the setting's business.
type settingFlag struct {
	setting
	text  string
	given bool
}

func (f *settingFlag) String() string { return f.def }
func (f *settingFlag) Type() string   { return cmp.Or(f.arg, "bool") }

// Set keeps the text. A list grows with every use of its flag.
func (f *settingFlag) Set(text string) error {
	if f.given && isListSetting(f.name) {
		text = f.text + "," + text
	}
	f.text, f.given = text, true
	return nil
}

func (f *settingFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "config", "", "read settings and queues from this YAML `file` (default $TENAQ_CONFIG)")
	for _, s := range allSettings {
		v := &settingFlag{setting: s}
		f.values = append(f.values, v)
		flag := flags.VarPF(v, s.name, "", s.usage)
		if s.isBool() {
			flag.NoOptDefVal = "true"
		}
	}
	flags.Lookup("data-dir").Usage += " (default $STATE_DIRECTORY, $XDG_STATE_HOME/tenaq, ~/.local/state/tenaq)"
	flags.SortFlags = false
}

// registerSome gives a command the flags of some settings. It has all of them from the file and the environment.
func (f *settingFlags) registerSome(flags *pflag.FlagSet, names ...string) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.register(all)
	for _, name := range append([]string{"config"}, names...) {
		flags.AddFlag(all.Lookup(name))
	}
}

// A loaded value is what a setting is in the end and where that comes from.
type loaded struct {
	Name   string `json:"-"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// A configuration is the outcome of loading: the settings and how they came about.
type configuration struct {
	settings
	values []loaded
	file   *configFile // nil when there is none
}

// load merges defaults, file, environment and flags; the later of them wins.
func (f *settingFlags) load() (*configuration, error) {
	c := &configuration{}
	path := cmp.Or(f.config, os.Getenv("TENAQ_CONFIG"))
	if path != "" {
		var err error
		if c.file, err = readConfigFile(path); err != nil {
			return nil, err
		}
		c.Queues, c.Actions = plainQueues(c.file.queues), c.file.actions
	}
	if err := checkEnvironment(os.Environ()); err != nil {
		return nil, err
	}
	for _, v := range f.values {
		value, err := f.find(v, c.file)
		if err != nil {
			return nil, err
		}
		if err := v.set(&c.settings, value.Value); err != nil {
			return nil, usagef("%s: %v", value.Origin, err)
		}
		c.values = append(c.values, value)
	}
	c.ConfigFiles = []string{path, c.credentials}
	if c.file != nil && c.file.redrive != nil {
		if err := c.file.redrive.refuseTimeScale(c.file.path, c.TimeScale); err != nil {
			return nil, err
		}
		c.DeadLetterQueues = c.file.redrive.deadLetterQueues()
	}
	return c, nil
}

// dataDir is where the data of a server lies that runs, or is to run, with these settings. When a flag says it, nothing else of
// them is looked at.
func (f *settingFlags) dataDir() (string, error) {
	for _, v := range f.values {
		if v.name == "data-dir" && v.given && v.text != "" {
			return v.text, nil
		}
	}
	c, err := f.load()
	if err != nil {
		return "", err
	}
	return c.DataDir, nil
}

// find finds the value of a setting. A variable that is empty is taken as one that is not set.
func (f *settingFlags) find(v *settingFlag, file *configFile) (loaded, error) {
	if v.given {
		return loaded{v.name, v.text, "--" + v.name}, nil
	}
	if text := os.Getenv(v.env()); text != "" {
		return loaded{v.name, text, v.env()}, nil
	}
	if file != nil {
		if value, ok := file.values[v.name]; ok {
			return loaded{v.name, value.text, fmt.Sprintf("%s:%d", file.path, value.line)}, nil
		}
	}
	if v.name == "data-dir" {
		dir, origin, err := defaultDataDir(os.Getenv)
		if err != nil {
			return loaded{}, usagef("%v", err)
		}
		return loaded{v.name, dir, origin}, nil
	}
	return loaded{v.name, v.def, "default"}, nil
}

// checkEnvironment refuses a variable that is nearly a setting: a slip in TENAQ_ALLOWED_HOSTS should not
// pass in silence. Others that begin with TENAQ_ are none of ours; Kubernetes sets some for a service of
// that name.
func checkEnvironment(environ []string) error {
	known := []string{"TENAQ_CONFIG", "TENAQ_ENDPOINT_URL", "TENAQ_ACCESS_KEY_ID", "TENAQ_SECRET_ACCESS_KEY"}
	for _, s := range allSettings {
		known = append(known, s.env())
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "TENAQ_") || slices.Contains(known, name) {
			continue
		}
		if near := nearest(name, known); near != "" {
			return usagef("the environment variable %s is not a setting; did you mean %s?", name, near)
		}
	}
	return nil
}

// queueNames lists the declared queues.
func queueNames(queues []server.Queue) []string {
	var names []string
	for _, q := range queues {
		names = append(names, q.Name)
	}
	return names
}
