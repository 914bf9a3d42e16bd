package cli

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version and Commit are those of the program if its build set them.
var Version, Commit string

type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// built from a tree with changes that are in no commit
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func BuildVersion() build {
	b := build{Version: Version, Commit: Commit, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "(devel)" {
			b.Version = cmp.Or(b.Version, info.Main.Version)
		}
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				b.Commit = cmp.Or(b.Commit, s.Value)
			case "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	b.Version = cmp.Or(b.Version, "devel")
	return b
}

func NewVersionCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Long: `Print the version of this program, the commit that it was built from if known,
and the Go version that built it.`,
		Example: "  tenaq version\n  tenaq version --json",
		Args:    Wants(0, 0),
		RunE: func(*cobra.Command, []string) error {
			b := BuildVersion()
			commit := ""
			if b.Commit != "" {
				commit = "commit " + b.Commit[:min(12, len(b.Commit))]
				if b.Modified {
					commit += " with changes"
				}
				commit += ", "
			}
			return a.Result(b, "tenaq %s (%s%s, %s)", b.Version, commit, b.Go, b.Platform)
		},
	}
}
