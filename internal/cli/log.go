package cli

import (
	"cmp"
	"io"
	"log/slog"

	"github.com/spf13/pflag"
)

// A LogStyle says what a log holds and how it is written.
type LogStyle struct {
	Level  slog.Level
	Format string // text or json
}

// Logger writes to w: standard error, or what keeps a progress line below the log. Standard output
// is for results.
func (s LogStyle) Logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.Level}
	if s.Format == "json" {
		return slog.New(slog.NewJSONHandler(terminalLog(w), options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// LogFlags are the flags of every command that writes a log, except serve: there they are settings.
type LogFlags struct {
	level  *slog.Level // nil unless set
	format string
}

func (f *LogFlags) Register(flags *pflag.FlagSet, levels string) {
	Value(flags, &f.level, "log-level", "", "minimum `level` to log (default "+levels+")",
		func(v string) (*slog.Level, error) {
			level, err := ParseLevel(v)
			return &level, err
		})
	Value(flags, &f.format, "log-format", "", "log `format`: text or json (default text)",
		ParseLogFormat)
}

// Style returns the style of the log. usual is the level without --log-level.
func (f *LogFlags) Style(a *App, usual slog.Level) LogStyle {
	s := LogStyle{usual, cmp.Or(f.format, "text")}
	if f.format == "" && a.JSON {
		s.Format = "json"
	}
	if f.level != nil {
		s.Level = *f.level
	}
	return s
}

func ParseLogFormat(v string) (string, error) { return OneOf("text", "json")(v) }

func ParseLevel(v string) (level slog.Level, err error) {
	if v, err = OneOf("debug", "info", "warn", "error")(v); err == nil {
		err = level.UnmarshalText([]byte(v))
	}
	return level, err
}
