// Package settings turns flags, TENAQ_* variables and the YAML file into one checked configuration of a server.
//
// Flags win over variables, variables over the file, the file over defaults. An unknown key, a value that cannot
// be applied and a setting that contradicts another are errors that name their origin. Nothing is opened or
// started here: that is the work of packages server and redrivehost.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"tenaq/internal/cli"
	"tenaq/internal/server"
)

// settings are all that "tenaq serve" can be told.
type settings struct {
	server.Config
	CredentialsFile string // file
	Log             cli.LogStyle
}

// A setting is one of them. Its name is the key in the configuration file; --name is its flag and
// TENAQ_NAME its environment variable. From wherever it comes it comes as text, so that there is one way
// to read it and one wording of what is wrong with it.
type setting struct {
	name  string
	arg   string // what the help calls the value
	usage string
	def   string // the default, in the words of a user; it is applied like any other value
	set   func(*settings, string) error
}

func (s setting) env() string {
	return "TENAQ_" + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// isBool tells whether the flag may stand without a value.
func (s setting) isBool() bool { return s.arg == "" }

// allSettings is the one list of settings: flags, environment, file, help and "tenaq config" follow it.
// The data directory has no fixed default, see defaultDataDir.
var allSettings = []setting{
	{"listen", "address", "serve the SQS API at this address", "127.0.0.1:9324",
		func(s *settings, v string) error { s.Listen = v; return cli.CheckAddress(v) }},
	{"admin-listen", "address", "serve health checks and metrics at this address; off for none", "127.0.0.1:9325",
		func(s *settings, v string) error {
			s.AdminListen = v
			if v == "off" {
				return nil
			}
			return cli.CheckAddress(v)
		}},
	{"queue-metrics", "", "tell of each queue in /metrics; false is for many thousands of queues", "true",
		func(s *settings, v string) error {
			each, err := parseBool(v)
			s.NoQueueMetrics = !each
			return err
		}},
	{"data-dir", "directory", "keep the data in this directory", "",
		func(s *settings, v string) error { s.DataDir = v; return checkDirectory(v) }},
	{"account", "digits", "account number in queue URLs and ARNs", "000000000000",
		func(s *settings, v string) error { s.Account = v; return checkAccount(v) }},
	{"region", "name", "region in ARNs and signatures", cli.DefaultRegion,
		func(s *settings, v string) error { s.Region = v; return checkRegion(v) }},
	{"public-url", "URL", "begin queue URLs with this, such as https://queue.example.com (default: what the client asked for)", "",
		func(s *settings, v string) error { s.PublicURL = v; return checkPublicURL(v) }},
	{"credentials", "file", "require requests to be signed with one of the keys in this JSON file; SIGHUP reads it again", "",
		func(s *settings, v string) error { s.CredentialsFile = v; return checkHome(v) }},
	{"tls-cert", "file", "serve the SQS API over TLS, with the certificate and its chain in this PEM file", "",
		func(s *settings, v string) error { s.TLSCert = v; return checkHome(v) }},
	{"tls-key", "file", "the key to it, in PEM; both are read again when they change", "",
		func(s *settings, v string) error { s.TLSKey = v; return checkHome(v) }},
	{"allow-unauthenticated", "", "permit an address that others can reach although requests are not authenticated", "false",
		func(s *settings, v string) (err error) { s.AllowUnauthenticated, err = parseBool(v); return err }},
	{"allowed-hosts", "names", "host names, separated by commas, that clients may use besides loopback ones and the address", "",
		func(s *settings, v string) error { s.AllowedHosts = cli.SplitList(v); return nil }},
	{"visibility-grace", "duration", "after an unclean stop, keep messages hidden that were in flight, at most so long; 0 for not at all", "60s",
		func(s *settings, v string) (err error) { s.VisibilityGrace, err = durationOrNone(v); return err }},
	{"purge-interval", "duration", "least time between two purges of a queue; 0 for none", "60s",
		func(s *settings, v string) (err error) { s.PurgeInterval, err = durationOrNone(v); return err }},
	{"recreate-delay", "duration", "how long the name of a deleted queue cannot be used; 0 for not at all", "60s",
		func(s *settings, v string) (err error) { s.RecreateDelay, err = durationOrNone(v); return err }},
	{"in-flight-max", "number", "most messages of one queue that may be in flight", "120000",
		func(s *settings, v string) (err error) { s.InFlightMax, err = cli.ParseCount(v); return err }},
	{"window", "number", "entries of each index of a queue kept in memory; matters for speed only", "4096",
		func(s *settings, v string) (err error) { s.Window, err = cli.ParseCount(v); return err }},
	{"disk-reserve", "size", "refuse sends when less than this is free on disk; 0 for never", "512MiB",
		func(s *settings, v string) error {
			n, err := cli.ParseSize(v)
			s.DiskReserve = cmp.Or(n, -1)
			return err
		}},
	{"time-scale", "factor", "let time in the queues pass this much faster; for demos and tests on a loopback address", "1",
		func(s *settings, v string) (err error) { s.TimeScale, err = parseFactor(v); return err }},
	{"accept-loss", "number", "open a store that is known to lack up to this many acknowledged commits; meant for a single start", "0",
		func(s *settings, v string) (err error) {
			if s.AcceptLoss, err = strconv.ParseUint(v, 10, 64); err != nil {
				return fmt.Errorf("%q is not a number of commits", v)
			}
			return nil
		}},
	{"shipped-alarms", "", "have the alarms that tenaq gives every queue", "true",
		func(s *settings, v string) error {
			have, err := parseBool(v)
			s.NoShippedAlarms = !have
			return err
		}},
	{"alarm-actions", "names", "actions, separated by commas, that these alarms run; the file declares them, and there always is log", "log",
		func(s *settings, v string) error { s.AlarmActions = cli.SplitList(v); return nil }},
	{"alarm-actions-unknown", "choice", "alarm that names an undeclared action: refuse it, or log its notices", "refuse",
		func(s *settings, v string) error {
			s.AlarmActionsUnknown = v
			if v != "refuse" && v != "log" {
				return fmt.Errorf("%q is neither refuse nor log", v)
			}
			return nil
		}},
	{"alarm-repeat", "duration", "tell again of an alarm that goes on, until it is acknowledged; 0 for never", "4h",
		func(s *settings, v string) (err error) { s.AlarmRepeat, err = durationOrNone(v); return err }},
	{"alarm-minute", "duration", "let a minute of the alarms take so long; for demos and tests on a loopback address", "1m",
		func(s *settings, v string) (err error) { s.AlarmMinute, err = cli.ParseDuration(v); return err }},
	{"log-level", "level", "log this level and above: debug, info, warn or error", "info",
		func(s *settings, v string) (err error) { s.Log.Level, err = cli.ParseLevel(v); return err }},
	{"log-format", "format", "write the log in this format: text or json", "text",
		func(s *settings, v string) error { s.Log.Format = v; return cli.CheckLogFormat(v) }},
}

// isListSetting tells whether a setting is a list, which a file may write as one.
func isListSetting(name string) bool { return name == "allowed-hosts" || name == "alarm-actions" }

func settingNames() []string {
	var names []string
	for _, s := range allSettings {
		names = append(names, s.name)
	}
	return names
}

// durationOrNone reads a duration of which zero means none; Config says that with a negative one, because
// there the zero value is the default.
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

func checkHome(v string) error {
	if strings.HasPrefix(v, "~") {
		return fmt.Errorf("%q: only a shell knows what ~ means; write the whole path", v)
	}
	return nil
}

func checkPublicURL(v string) error {
	if v == "" {
		return nil
	}
	u, err := url.Parse(v)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is not a URL such as https://queue.example.com", v)
	}
	return nil
}
