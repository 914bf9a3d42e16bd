package cli

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestLogStyle(t *testing.T) {
	debug, errors := slog.LevelDebug, slog.LevelError
	for _, test := range []struct {
		flags      LogFlags
		json       bool
		usual      slog.Level
		want, lack string
	}{
		{LogFlags{}, false, slog.LevelInfo, "level=INFO msg=info", "debug"},
		{LogFlags{}, true, slog.LevelInfo, `"level":"INFO","msg":"info"`, "debug"},
		{LogFlags{}, false, slog.LevelWarn, "level=WARN msg=warn", "info"},
		{LogFlags{level: &debug}, false, slog.LevelWarn, "msg=debug", "{"},
		{LogFlags{level: &errors}, false, slog.LevelInfo, "msg=error", "warn"},
		{LogFlags{format: "json"}, false, slog.LevelInfo, `"msg":"info"`, "debug"},
		{LogFlags{format: "text"}, true, slog.LevelInfo, "msg=info", "{"},
	} {
		a := &App{JSON: test.json}
		var b bytes.Buffer
		l := test.flags.Style(a, test.usual).Logger(&b)
		l.Debug("debug")
		l.Info("info")
		l.Warn("warn")
		l.Error("error")
		if s := b.String(); !strings.Contains(s, test.want) || strings.Contains(s, test.lack) {
			t.Errorf("%+v: %s", test, s)
		}
	}
}
