// Package settings turns flags, TENAQ_* variables and the YAML file into one checked configuration
// of a server.
//
// Flags win over variables, variables over the file, the file over defaults. An unknown key, a
// value that cannot be applied and a setting that contradicts another are errors that name their
// origin. Nothing is opened or started here: that is the work of packages server and redrivehost.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"tenaq/internal/cli"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/server"
)

type settings struct {
	server.Config
	CredentialsFile string // file
	Log             cli.LogStyle
}

// A setting is one of them. Its name is the key in the configuration file; --name is its flag and
// TENAQ_NAME its environment variable. Its value is always text, so there is one parser and one
// wording of each error.
type setting struct {
	name  string
	arg   string // what the help calls the value
	usage string
	def   string // the default, as a user would write it; it is applied like any other value
	set   func(*settings, string) error
}

func (s setting) env() string {
	return "TENAQ_" + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

func (s setting) isBool() bool { return s.arg == "" }

// allSettings is the one list of settings: flags, environment, file, help and "tenaq config" follow
// it. The data directory has no fixed default, see defaultDataDir.
var allSettings = []setting{
	{"listen", "address", "SQS API address", "127.0.0.1:9324",
		func(s *settings, v string) error { s.Listen = v; return cli.CheckAddress(v) }},
	{"admin-listen", "address", "health and metrics", "127.0.0.1:9325",
		func(s *settings, v string) error {
			s.AdminListen = v
			if v == "off" {
				return nil
			}
			return cli.CheckAddress(v)
		}},
	{"console", "mode", "on, off, auto or an address", "auto",
		func(s *settings, v string) error {
			s.Console = v
			if v == "auto" || v == "on" || v == "off" || cli.CheckAddress(v) == nil {
				return nil
			}
			return fmt.Errorf("%q is not on, off, auto or an address such as 127.0.0.1:9328", v)
		}},
	{"console-read-only", "", "make the console read-only", "false",
		into(func(s *settings) *bool { return &s.ConsoleReadOnly }, parseBool)},
	{"queue-metrics", "", "metrics for each queue", "true",
		func(s *settings, v string) error {
			each, err := parseBool(v)
			s.NoQueueMetrics = !each
			return err
		}},
	{"data-dir", "directory", "directory of the data", "",
		func(s *settings, v string) error { s.DataDir = v; return checkDirectory(v) }},
	{"account", "digits", "account in URLs, ARNs", "000000000000",
		func(s *settings, v string) error { s.Account = v; return checkAccount(v) }},
	{"region", "name", "region in ARNs", cli.DefaultRegion,
		func(s *settings, v string) error { s.Region = v; return checkRegion(v) }},
	{"public-url", "URL", "base of queue URLs (default: as requested)", "",
		func(s *settings, v string) error {
			s.PublicURL = v
			return unlessEmpty(v, checkPublicURL)
		}},
	{"credentials", "file", "JSON file of keys that may sign requests", "",
		func(s *settings, v string) error { s.CredentialsFile = v; return checkHome(v) }},
	{"tls-cert", "file", "PEM certificate chain; serves TLS", "",
		func(s *settings, v string) error { s.TLSCert = v; return checkHome(v) }},
	{"tls-key", "file", "PEM key of --tls-cert", "",
		func(s *settings, v string) error { s.TLSKey = v; return checkHome(v) }},
	{"allow-unauthenticated", "", "allow any client that reaches the address", "false",
		into(func(s *settings) *bool { return &s.AllowUnauthenticated }, parseBool)},
	{"allowed-hosts", "names", "extra host names to accept, comma-separated", "",
		func(s *settings, v string) error { s.AllowedHosts = cli.SplitList(v); return nil }},
	{"visibility-grace", "duration", "extra hiding after a crash", "60s",
		into(func(s *settings) *time.Duration { return &s.VisibilityGrace }, durationOrNone)},
	{"purge-interval", "duration", "minimum time between purges", "60s",
		into(func(s *settings) *time.Duration { return &s.PurgeInterval }, durationOrNone)},
	{"recreate-delay", "duration", "reserve deleted queue names", "60s",
		into(func(s *settings) *time.Duration { return &s.RecreateDelay }, durationOrNone)},
	{"in-flight-max", "number", "maximum in flight per queue", "120000",
		into(func(s *settings) *int { return &s.InFlightMax }, cli.ParseCount)},
	{"window", "number", "index entries in memory", "4096",
		into(func(s *settings) *int { return &s.Window }, cli.ParseCount)},
	{"disk-reserve", "size", "minimum free disk for sends", "512MiB",
		func(s *settings, v string) error {
			n, err := cli.ParseSize(v)
			s.DiskReserve = cmp.Or(n, -1)
			return err
		}},
	{"time-scale", "factor", "speed of queue time, for tests", "1",
		into(func(s *settings) *float64 { return &s.TimeScale }, parseFactor)},
	{"accept-loss", "number", "lost commits to accept, for one start", "0",
		func(s *settings, v string) (err error) {
			if s.AcceptLoss, err = strconv.ParseUint(v, 10, 64); err != nil {
				return fmt.Errorf("%q is not a number of commits", v)
			}
			return nil
		}},
	{"shipped-alarms", "", "enable the built-in alarms", "true",
		func(s *settings, v string) error {
			have, err := parseBool(v)
			s.NoShippedAlarms = !have
			return err
		}},
	{"alarm-actions", "names", "actions of built-in alarms", "log",
		func(s *settings, v string) error { s.AlarmActions = cli.SplitList(v); return nil }},
	{"alarm-actions-unknown", "do", "refuse or log undeclared", "refuse",
		into(func(s *settings) *string {
			return &s.AlarmActionsUnknown
		}, cli.OneOf("refuse", "log"))},
	{"alarm-repeat", "duration", "repeat an open alarm; 0: never", "4h",
		into(func(s *settings) *time.Duration { return &s.AlarmRepeat }, durationOrNone)},
	{"alarm-pages", "URL", "alarm pages", monitor.DefaultPages,
		func(s *settings, v string) error { s.AlarmPages = v; return checkPages(v) }},
	{"alarm-minute", "duration", "length of a minute, for tests", "1m",
		into(func(s *settings) *time.Duration { return &s.AlarmMinute }, cli.ParseDuration)},
	{"cluster-listen", "address", "be a node of a cluster; others connect here", "",
		func(s *settings, v string) error {
			s.ClusterListen = v
			return unlessEmpty(v, cli.CheckAddress)
		}},
	{"cluster-advertise", "address", "address that others use (default: the same)", "",
		func(s *settings, v string) error {
			s.ClusterAdvertise = v
			return unlessEmpty(v, CheckPeer)
		}},
	{"cluster-peers", "addresses", "first nodes; the same list on each node", "",
		into(func(s *settings) *[]string { return &s.ClusterPeers }, parsePeers)},
	{"cluster-identity", "dir", "certificates of this node", "",
		func(s *settings, v string) error { s.ClusterIdentity = v; return checkHome(v) }},
	{"cluster-token-file", "file", "secret of nodes on one machine", "",
		func(s *settings, v string) error { s.ClusterTokenFile = v; return checkHome(v) }},
	{"log-level", "level", "debug, info, warn or error", "info",
		into(func(s *settings) *slog.Level { return &s.Log.Level }, cli.ParseLevel)},
	{"log-format", "format", "text or json", "text",
		into(func(s *settings) *string { return &s.Log.Format }, cli.ParseLogFormat)},
}

// into returns a set that parses the text into a field.
func into[V any](
	field func(*settings) *V, parse func(string) (V, error),
) func(*settings, string) error {
	return func(s *settings, text string) (err error) {
		*field(s), err = parse(text)
		return err
	}
}

// isListSetting reports whether a setting is a list, also in the file.
func isListSetting(name string) bool {
	return name == "allowed-hosts" || name == "alarm-actions" || name == "cluster-peers"
}

func settingNames() []string {
	var names []string
	for _, s := range allSettings {
		names = append(names, s.name)
	}
	return names
}

// durationOrNone reads a duration of which zero means none; Config says that with a negative one,
// because there the zero value is the default.
func durationOrNone(v string) (time.Duration, error) {
	d, err := cli.ParseDuration(v)
	if err == nil && d == 0 {
		return -1, nil
	}
	return d, err
}

func parseFactor(v string) (float64, error) {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f > 0) || f > 1e6 {
		return 0, fmt.Errorf("%q is not a factor between 0 and 1000000", v)
	}
	return f, nil
}

func parseBool(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", v)
}

func checkAccount(v string) error {
	if len(v) != 12 || strings.Trim(v, "0123456789") != "" {
		return fmt.Errorf("%q is not an account of twelve digits", v)
	}
	return nil
}

func checkRegion(v string) error {
	if v == "" || strings.ContainsAny(v, " :/") { // it becomes a part of ARNs and of signatures
		return fmt.Errorf("%q is not the name of a region, such as %s", v, cli.DefaultRegion)
	}
	return nil
}

func checkDirectory(v string) error {
	if v == "" {
		return errors.New("the name of the directory is empty")
	}
	return checkHome(v)
}

// unlessEmpty checks a value that may be left out.
func unlessEmpty(v string, check func(string) error) error {
	if v == "" {
		return nil
	}
	return check(v)
}

func checkHome(v string) error {
	if strings.HasPrefix(v, "~") {
		return fmt.Errorf("%q: the shell expands ~ only at the start of a word; write the full path", v)
	}
	return nil
}

func checkPublicURL(v string) error {
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is not a URL such as https://queue.example.com", v)
	}
	return nil
}

// pagesForm matches an address of the pages of alarms, with a host and monitor.PageKind behind it.
var pagesForm = regexp.MustCompile(`^https?://[^\s/]+/\S*\{kind\}\S*$`)

func checkPages(v string) error {
	if v != monitor.DefaultPages && !pagesForm.MatchString(v) {
		return fmt.Errorf("%q is not a URL with the place of the alarm's kind, "+
			"such as https://docs.example.com/tenaq/docs/alarms/{kind}.html", v)
	}
	return nil
}
