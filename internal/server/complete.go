package server

import (
	"cmp"
	"log/slog"
	"math"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"tenaq/internal/door/policy"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/work/sqslimits"
)

// complete fills in the defaults and refuses what is contradictory or unsafe.
func (c *Config) complete() error {
	c.Listen = cmp.Or(c.Listen, "127.0.0.1:9324")
	c.AdminListen = cmp.Or(c.AdminListen, "127.0.0.1:9325")
	c.Account = cmp.Or(c.Account, "000000000000")
	c.Region = cmp.Or(c.Region, "us-east-1")
	c.TimeScale = cmp.Or(c.TimeScale, 1)
	c.VisibilityGrace = orDefault(c.VisibilityGrace, time.Minute)
	c.PurgeInterval = orDefault(c.PurgeInterval, time.Minute)
	c.RecreateDelay = orDefault(c.RecreateDelay, time.Minute)
	c.InFlightMax = cmp.Or(c.InFlightMax, sqslimits.InFlightMax)
	c.AlarmMinute = cmp.Or(c.AlarmMinute, time.Minute)
	c.DiskReserve = orDefault(c.DiskReserve, 512<<20)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Fatal = oneSentence(c.Fatal)
	switch {
	case c.DataDir == "":
		return configError("no data directory is set: pass one to --data-dir")
	case !policy.IsAccount(c.Account):
		return configError("account %q is not twelve digits: correct --account", c.Account)
	case !(c.TimeScale > 0) || math.IsInf(c.TimeScale, 0):
		return configError("time scale %v is not a positive number: correct --time-scale",
			c.TimeScale)
	case c.InFlightMax < 1:
		return configError("in-flight limit %d is not positive: correct --in-flight-max",
			c.InFlightMax)
	}
	if c.PublicURL != "" {
		u, err := url.Parse(c.PublicURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
			strings.ContainsAny(c.PublicURL, "?#") {
			return configError("public URL %q is not like https://queue.example.com: correct --public-url", c.PublicURL)
		}
	}
	loopback, err := isLoopback(c.Listen)
	switch {
	case err != nil:
		return configError("address %q is not like 127.0.0.1:9324: correct --listen", c.Listen)
	case !loopback && !c.AllowUnauthenticated && c.Credentials == nil: // [AUTH-1]
		return configError("without credentials anyone who reaches %s can read and delete every message: "+
			"listen on 127.0.0.1, or accept that with --allow-unauthenticated", c.Listen)
	case !loopback && c.TimeScale != 1: // [CLOCK-15]
		return configError("time scale %v on %s: scaled time is for tests on 127.0.0.1 only; leave --time-scale out", c.TimeScale, c.Listen)
	}
	if err := c.completeConsole(loopback); err != nil {
		return err
	}
	return c.completeAlarms(loopback)
}

// completeConsole decides where the console is. [CONSOLE-1]
func (c *Config) completeConsole(loopback bool) error {
	switch c.Console {
	case "", "auto":
		c.Console = "off"
		if loopback {
			c.Console = "on"
		} else if c.Credentials != nil && c.Credentials.Proxy() != nil { // [CONSOLE-20]
			return configError("the credentials file lets users of a proxy in, but on %s the console is off: "+
				"set --console to on or an address, or to off if that is meant", c.Listen)
		}
	case "on", "off":
	default:
		own, err := isLoopback(c.Console)
		switch {
		case err != nil:
			return configError("console %q is neither auto, on, off nor an address like 127.0.0.1:9328: correct --console", c.Console)
		case !own && !c.AllowUnauthenticated && c.Credentials == nil:
			return configError("without credentials anyone who reaches %s can read and delete every message: "+
				"give --console an address of 127.0.0.1, or accept that with --allow-unauthenticated", c.Console)
		}
	}
	return nil
}

// ownConsole returns the address that only the console has; empty for none.
func (c *Config) ownConsole() string {
	if c.Console == "on" || c.Console == "off" {
		return ""
	}
	return c.Console
}

// oneSentence reports one fault at a time, through exitOnFault when fatal is nil. Several
// goroutines notice a disk that fails, and the first report ends the process.
func oneSentence(fatal func(error)) func(error) {
	if fatal == nil {
		fatal = exitOnFault
	}
	var speaking sync.Mutex
	return func(err error) {
		speaking.Lock()
		defer speaking.Unlock()
		fatal(err)
	}
}

// completeAlarms refuses alarm settings that could notify no one.
func (c *Config) completeAlarms(loopback bool) error {
	switch {
	case c.AlarmMinute < 100*time.Millisecond || c.AlarmMinute > time.Minute:
		return configError("a minute of %v is not between 100ms and 1m: correct --alarm-minute",
			c.AlarmMinute)
	case !loopback && c.AlarmMinute != time.Minute:
		return configError("alarm minute %v on %s: short minutes are for tests on 127.0.0.1 only; leave --alarm-minute out", c.AlarmMinute, c.Listen)
	case c.AlarmActionsUnknown != "" && c.AlarmActionsUnknown != "refuse" &&
		c.AlarmActionsUnknown != "log":
		return configError("%q is neither refuse nor log: correct --alarm-actions-unknown",
			c.AlarmActionsUnknown)
	}
	for _, name := range c.AlarmActions {
		if _, ok := c.Actions[monitor.ActionName(name)]; !ok && name != monitor.LogAction {
			return configError("action %q is not declared: add it under actions in the configuration file, or correct --alarm-actions", name)
		}
	}
	return nil
}

// isLoopback reports whether an address can be reached from this machine only.
func isLoopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, err
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// hosts are the names that a request may carry in its Host header, besides loopback ones. [AUTH-2]
func (c *Config) hosts() []string {
	hosts := make([]string, 0, len(c.AllowedHosts)+2)
	for _, h := range c.AllowedHosts {
		if name, _, err := net.SplitHostPort(h); err == nil {
			h = name // every port is allowed
		}
		hosts = append(hosts, strings.ToLower(strings.Trim(h, "[]")))
	}
	for _, address := range []string{c.Listen, c.ownConsole()} {
		if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
			hosts = append(hosts, strings.ToLower(host))
		}
	}
	if u, err := url.Parse(c.PublicURL); err == nil && u.Host != "" {
		hosts = append(hosts, strings.ToLower(u.Hostname()))
	}
	return hosts
}

// aliases are the names that clients may have signed a request for although a proxy wrote another.
// [AUTH-36]
func (c *Config) aliases() []string {
	if u, err := url.Parse(c.PublicURL); err == nil && u.Host != "" {
		return []string{u.Host}
	}
	return nil
}
