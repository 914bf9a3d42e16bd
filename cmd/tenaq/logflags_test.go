package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// Every command that writes a log has the same two flags, and refuses the same values.
func TestLogFlags(t *testing.T) {
	commands := [][]string{
		{"serve"},
		{"pipe", "orders"},
		{"redrive", "run", "orders-dlq", "--parking", "parking"},
		{"outbox", "relay", "--db", "sqlite:nowhere.db"},
	}
	for _, c := range commands {
		for flag, says := range map[string]string{
			"--log-level=loud":  `--log-level: "loud" is none of debug, info, warn, error`,
			"--log-format=yaml": `--log-format: "yaml" is neither text nor json`,
		} {
			args := append(append([]string{}, c...), flag)
			if c[0] == "pipe" {
				args = append(args, "--", "true")
			}
			wantExecute(t, exitUsage, says, args...)
		}
	}
}

func TestLogStyle(t *testing.T) {
	for _, test := range []struct {
		flags      logFlags
		json       bool
		usual      slog.Level
		want, lack string
	}{
		{logFlags{}, false, slog.LevelInfo, "level=INFO msg=info", "debug"},
		{logFlags{}, true, slog.LevelInfo, `"level":"INFO","msg":"info"`, "debug"},
		{logFlags{}, false, slog.LevelWarn, "level=WARN msg=warn", "info"},
		{logFlags{level: "debug"}, false, slog.LevelWarn, "msg=debug", "{"},
		{logFlags{level: "error"}, false, slog.LevelInfo, "msg=error", "warn"},
		{logFlags{format: "json"}, false, slog.LevelInfo, `"msg":"info"`, "debug"},
		{logFlags{format: "text"}, true, slog.LevelInfo, "msg=info", "{"},
	} {
		a := &app{json: test.json}
		style, err := test.flags.style(a, test.usual)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		l := style.logger(&b)
		l.Debug("debug")
		l.Info("info")
		l.Warn("warn")
		l.Error("error")
		if s := b.String(); !strings.Contains(s, test.want) || strings.Contains(s, test.lack) {
			t.Errorf("%+v: %s", test, s)
		}
	}
}
