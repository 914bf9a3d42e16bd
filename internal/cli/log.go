package cli

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// A LogStyle says what a log holds and how it is written.
type LogStyle struct {
	Level  slog.Level
	Format string // text or json
}

// Logger writes to w, which is standard error unless a terminal shows something beside the log:
// standard output is for results.
func (s LogStyle) Logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.Level}
	if s.Format == "json" {
		return slog.New(slog.NewJSONHandler(terminalLog(w), options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// LogFlags are the flags of every command that writes a log, except serve: there they are settings.
type LogFlags struct{ level, format string }

func (f *LogFlags) Register(flags *pflag.FlagSet, levels string) {
	flags.StringVar(&f.level, "log-level", "", "minimum `level` to log (default "+levels+")")
	flags.StringVar(&f.format, "log-format", "", "log `format`: text or json (default text)")
}

// Style reads the flags. usual is the level when none is given.
func (f *LogFlags) Style(a *App, usual slog.Level) (s LogStyle, err error) {
	s.Level, s.Format = usual, "text"
	if a.JSON {
		s.Format = "json"
	}
	if f.level != "" {
		if s.Level, err = ParseLevel(f.level); err != nil {
			return s, Usagef("--log-level: %v", err)
		}
	}
	s.Format = cmp.Or(f.format, s.Format)
	if err := CheckLogFormat(s.Format); err != nil {
		return s, Usagef("--log-format: %v", err)
	}
	return s, nil
}

func CheckLogFormat(v string) error {
	if v != "text" && v != "json" {
		return fmt.Errorf("%q is neither text nor json", v)
	}
	return nil
}

func ParseLevel(v string) (slog.Level, error) {
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
