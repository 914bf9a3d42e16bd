package settings

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"tenaq/internal/cli"
	"tenaq/internal/server"
)

// TestZeroMeansNone checks the one place where the words of a user and those of Config differ.
func TestZeroMeansNone(t *testing.T) {
	c := loadArgs(t, "--visibility-grace=0", "--purge-interval", "0s", "--recreate-delay=0", "--disk-reserve=0")
	got := []int64{int64(c.VisibilityGrace), int64(c.PurgeInterval), int64(c.RecreateDelay), c.DiskReserve}
	for i, v := range got {
		if v >= 0 {
			t.Errorf("value %d: got %d, want a negative one", i, v)
		}
	}
}

// TestEverySettingIsConfigurable checks that no field of Config is left out: each has a setting,
// perhaps for its opposite, but for what the program itself provides.
func TestEverySettingIsConfigurable(t *testing.T) {
	provided := []string{"Queues", "Version", "Logger", "Fatal", "Metrics", "Actions", "HeapBallast", "DeadLetterQueues", "ConfigFiles", "ClusterToken", "Writing", "Redrivers", "Stores", "Settings"}
	set := map[string]bool{}
	for _, s := range allSettings {
		field := strings.ReplaceAll(strings.ToLower(s.name), "-", "")
		set[field], set["no"+field] = true, true
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[server.Config]()) {
		name := field.Name
		if field.IsExported() && !slices.Contains(provided, name) && !set[strings.ToLower(name)] {
			t.Errorf("Config.%s: got no setting, want one", name)
		}
	}
}

// The printed settings have no password, whatever the form of the address that has one. [V1-24]
func TestShownSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tenaq.yaml")
	file := `region: eu-west-1
queues: [{name: orders-dlq}, {name: parking}]
redrive:
  records: postgresql://app:hidden@db.example.com/app?sslmode=require
  queues: [{dead-letter: orders-dlq, parking: parking}]
claims: [{name: shop, records: "postgres://app:hidden@db.example.com/shop"}]
actions: {team: {webhook: "https://hooks.example.com/hidden"}, pager: {command: [sh, hidden]}}
`
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	c := loadArgs(t, "--config", path, "--public-url", "HTTPS://app:hidden@queue.example.com", "--alarm-pages=https://app:hidden@docs.example.com/{kind}.html")
	var got []string
	for i, s := range c.Settings {
		if i < len(allSettings) && s.Name != allSettings[i].name {
			t.Errorf("got %s in the place of %s", s.Name, allSettings[i].name)
		}
		if s.Origin != "default" {
			got = append(got, s.Name+" "+s.Value+" "+strings.TrimPrefix(s.Origin, path))
		}
	}
	want := []string{"data-dir data --data-dir", "region eu-west-1 :1", "public-url https://app@queue.example.com --public-url",
		"alarm-pages https://app@docs.example.com/{kind}.html --alarm-pages", "queues orders-dlq,parking :2", "redrive orders-dlq :3",
		"redrive.records postgresql://app@db.example.com/app?sslmode=require :3", "claims shop :6", "actions pager,team "}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestDefaultsAreValid checks that what the help names as a default can be given as a value.
func TestDefaultsAreValid(t *testing.T) {
	for _, s := range allSettings {
		if s.def == "" {
			continue
		}
		if err := s.set(&settings{}, s.def); err != nil {
			t.Errorf("%s: got %v for its default %q, want no error", s.name, err, s.def)
		}
	}
}

func TestDefaultDataDir(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, tt := range []struct {
		env         map[string]string
		dir, origin string
	}{
		{nil, filepath.Join(home, ".local/state/tenaq"), "default"},
		{map[string]string{"XDG_STATE_HOME": "/x"}, "/x/tenaq", "XDG_STATE_HOME"},
		{map[string]string{"XDG_STATE_HOME": "relative"}, filepath.Join(home, ".local/state/tenaq"), "default"},
		{map[string]string{"XDG_STATE_HOME": "/x", "STATE_DIRECTORY": "/var/lib/tenaq"}, "/var/lib/tenaq", "STATE_DIRECTORY"},
		{map[string]string{"STATE_DIRECTORY": "/var/lib/a:/var/lib/b"}, "/var/lib/a", "STATE_DIRECTORY"},
	} {
		dir, origin, err := cli.DefaultDataDir(func(name string) string { return tt.env[name] })
		if dir != tt.dir || origin != tt.origin || err != nil {
			t.Errorf("%v: got %q, %q, %v, want %q, %q", tt.env, dir, origin, err, tt.dir, tt.origin)
		}
	}
}

func TestCheckEnvironment(t *testing.T) {
	for entry, want := range map[string]string{
		"TENAQ_LISTEN=x":                  "",
		"TENAQ_PORT=tcp://10.0.0.1:9324":  "", // Kubernetes sets these for a service called tenaq
		"TENAQ_SERVICE_HOST=10.0.0.1":     "",
		"TENAQ_PORT_9324_TCP=tcp://x":     "",
		"LISEN=x":                         "",
		"TENAQ_LISEN=x":                   "the environment variable TENAQ_LISEN is not a setting; did you mean TENAQ_LISTEN?",
		"TENAQ_VISIBLITY_GRACE=0":         "the environment variable TENAQ_VISIBLITY_GRACE is not a setting; did you mean TENAQ_VISIBILITY_GRACE?",
		"TENAQ_ENDPOINT_URL=http://local": "",
	} {
		err := checkEnvironment([]string{entry})
		if got := strings.TrimPrefix(fmt.Sprint(err), "<nil>"); got != want {
			t.Errorf("%s: got %q, want %q", entry, got, want)
		}
	}
}

func TestYAMLPolicyBecomesJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "q.yaml")
	file := `
queues:
  - name: orders
    attributes:
      Policy:
        Version: 2012-10-17
        Statement:
          - {Effect: Allow, Principal: {AWS: [012345678901, 9]}, Action: "*", Condition: {Bool: {x: true, y: null, z: 1.50}}}
`
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := ReadConfigFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":["012345678901",9]},"Action":"*","Condition":{"Bool":{"x":true,"y":null,"z":1.50}}}]}`
	if got := f.Queues[0].Attributes["Policy"]; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// loadArgs loads the settings from flags only.
func loadArgs(t *testing.T, args ...string) *Configuration {
	t.Helper()
	f := &SettingFlags{}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f.Register(flags)
	if err := flags.Parse(append(args, "--data-dir=data")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TENAQ_CONFIG", "")
	for _, s := range allSettings {
		t.Setenv(s.env(), "")
	}
	c, err := f.Load()
	if err != nil {
		t.Fatal(err)
	}
	return c
}
