package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// A logStyle says what a log holds and how it is written.
type logStyle struct {
	level  slog.Level
	format string // text or json
}

// logger writes to w, which is standard error unless a terminal shows something beside the log: standard
// output is for results.
func (s logStyle) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.level}
	if s.format == "json" {
		return slog.New(slog.NewJSONHandler(terminalLog(w), options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// logFlags are the flags of every command that writes a log, except serve: there they are settings.
type logFlags struct{ level, format string }

func (f *logFlags) register(flags *pflag.FlagSet, levels string) {
	flags.StringVar(&f.level, "log-level", "", "log this `level` and above: debug, info, warn or error (default "+levels+")")
	flags.StringVar(&f.format, "log-format", "", "write the log in this `format`: text or json (default text; json with --json)")
}

// style reads the flags. usual is the level when none is given.
func (f *logFlags) style(a *app, usual slog.Level) (s logStyle, err error) {
	s.level, s.format = usual, "text"
	if a.json {
		s.format = "json"
	}
	if f.level != "" {
		if s.level, err = parseLevel(f.level); err != nil {
			return s, usagef("--log-level: %v", err)
		}
	}
	s.format = cmp.Or(f.format, s.format)
	if err := checkLogFormat(s.format); err != nil {
		return s, usagef("--log-format: %v", err)
	}
	return s, nil
}

func checkLogFormat(v string) error {
	if v != "text" && v != "json" {
		return fmt.Errorf("%q is neither text nor json", v)
	}
	return nil
}

func parseLevel(v string) (slog.Level, error) {
	switch v {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("%q is none of debug, info, warn, error", v)
}
