package settings

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"tenaq/internal/api/v1"
	"tenaq/internal/cli"
	"tenaq/internal/server"
)

// SettingFlags are the flags of all settings and --config.
type SettingFlags struct {
	config string
	values []*settingFlag
}

// A settingFlag is the flag of a setting. It keeps the text, which the setting reads.
type settingFlag struct {
	setting
	text  string
	given bool
}

func (f *settingFlag) String() string { return f.def }

func (f *settingFlag) Type() string { return cmp.Or(f.arg, "bool") }

// Set keeps the text. A list grows with every use of its flag.
func (f *settingFlag) Set(text string) error {
	if f.given && isListSetting(f.name) {
		text = f.text + "," + text
	}
	f.text, f.given = text, true
	return nil
}

func (f *SettingFlags) Register(flags *pflag.FlagSet) {
	flags.StringVar(&f.config, "config", "", "YAML `file` with settings ($TENAQ_CONFIG)")
	for _, s := range allSettings {
		v := &settingFlag{setting: s}
		f.values = append(f.values, v)
		flag := flags.VarPF(v, s.name, "", s.usage)
		if s.isBool() {
			flag.NoOptDefVal = "true"
		}
	}
	flags.Lookup("data-dir").Usage += " (default: see above)"
	flags.SortFlags = false
}

// RegisterSome adds --config and the flags of some settings. The others come from the file and the
// environment only.
func (f *SettingFlags) RegisterSome(flags *pflag.FlagSet, names ...string) {
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Register(all)
	for _, name := range append([]string{"config"}, names...) {
		flags.AddFlag(all.Lookup(name))
	}
}

// A Loaded value is the value of a setting and its origin.
type Loaded struct {
	Name   string `json:"-"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// A Configuration has the settings and their origins.
type Configuration struct {
	settings
	Values []Loaded
	File   *configFile // nil when there is none
}

// Load merges defaults, file, environment and flags; the later of them wins.
func (f *SettingFlags) Load() (*Configuration, error) {
	c := &Configuration{}
	path := cmp.Or(f.config, os.Getenv("TENAQ_CONFIG"))
	if path != "" {
		var err error
		if c.File, err = ReadConfigFile(path); err != nil {
			return nil, err
		}
		c.Queues, c.Actions = PlainQueues(c.File.Queues), c.File.Actions
	}
	if err := checkEnvironment(os.Environ()); err != nil {
		return nil, err
	}
	for _, v := range f.values {
		value, err := f.find(v, c.File)
		if err != nil {
			return nil, err
		}
		if err := v.set(&c.settings, value.Value); err != nil {
			return nil, cli.Usagef("%s: %v", value.Origin, err)
		}
		c.Values = append(c.Values, value)
	}
	c.ClusterToken = os.Getenv(clusterToken)
	if err := c.checkCluster(); err != nil {
		return nil, err
	}
	c.ConfigFiles = []string{path, c.CredentialsFile}
	if c.File != nil && c.File.Redrive != nil {
		if err := c.File.Redrive.refuseTimeScale(c.File.Path, c.TimeScale); err != nil {
			return nil, err
		}
		c.DeadLetterQueues = c.File.Redrive.DeadLetterQueues()
	}
	c.Settings = c.shown()
	return c, nil
}

// shown lists the settings as people see them: without passwords. [V1-24]
func (c *Configuration) shown() (list []v1.Setting) {
	add := func(name, origin string, values ...string) {
		if len(values) > 0 {
			list = append(list, v1.Setting{Name: name,
				Value: withoutPassword(strings.Join(values, ",")), Origin: origin})
		}
	}
	for _, v := range c.Values {
		add(v.Name, v.Origin, v.Value)
	}
	f := c.File
	if f == nil {
		return list
	}
	at := func(line int) string { return fmt.Sprintf("%s:%d", f.Path, line) }
	if len(f.Queues) > 0 {
		add("queues", at(f.Queues[0].Line), QueueNames(c.Queues)...)
	}
	if r := f.Redrive; r != nil {
		add("redrive", at(r.Line), r.QueueNames()...)
		if r.Records.Address != "" {
			add("redrive.records", at(r.Line), r.Records.Address)
		}
	}
	if len(f.Stores) > 0 {
		add("claims", at(f.Stores[0].Line), StoreNames(f.Stores)...)
	}
	add("actions", f.Path, f.ActionNames()...) // and not what they hold
	return list
}

// DataDir returns the data directory of a server with these settings. If a flag names it, no other
// setting is read.
func (f *SettingFlags) DataDir() (string, error) {
	for _, v := range f.values {
		if v.name == "data-dir" && v.given && v.text != "" {
			return v.text, nil
		}
	}
	c, err := f.Load()
	if err != nil {
		return "", err
	}
	return c.DataDir, nil
}

// find finds the value of a setting. An empty variable counts as unset.
func (f *SettingFlags) find(v *settingFlag, file *configFile) (Loaded, error) {
	if v.given {
		return Loaded{v.name, v.text, "--" + v.name}, nil
	}
	if text := os.Getenv(v.env()); text != "" {
		return Loaded{v.name, text, v.env()}, nil
	}
	if file != nil {
		if value, ok := file.values[v.name]; ok {
			return Loaded{v.name, value.text, fmt.Sprintf("%s:%d", file.Path, value.line)}, nil
		}
	}
	if v.name == "data-dir" {
		dir, origin, err := cli.DefaultDataDir(os.Getenv)
		if err != nil {
			return Loaded{}, cli.Usagef("%v", err)
		}
		return Loaded{v.name, dir, origin}, nil
	}
	return Loaded{v.name, v.def, "default"}, nil
}

// checkEnvironment refuses a variable that is nearly a setting: a typo in TENAQ_ALLOWED_HOSTS must
// not be ignored. It allows other variables that begin with TENAQ_: Kubernetes sets some.
func checkEnvironment(environ []string) error {
	known := []string{"TENAQ_CONFIG", "TENAQ_ENDPOINT_URL", "TENAQ_ACCESS_KEY_ID",
		"TENAQ_SECRET_ACCESS_KEY", clusterToken}
	for _, s := range allSettings {
		known = append(known, s.env())
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "TENAQ_") || slices.Contains(known, name) {
			continue
		}
		if near := cli.Nearest(name, known); near != "" {
			return cli.Usagef("the environment variable %s is not a setting; did you mean %s?",
				name, near)
		}
	}
	return nil
}

// QueueNames lists the declared queues.
func QueueNames(queues []server.Queue) []string {
	var names []string
	for _, q := range queues {
		names = append(names, q.Name)
	}
	return names
}
