package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tenaq/internal/cli"
)

func newManCmd(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write the manual pages",
		Long: `Write a manual page for each command into a directory, which is created if it is
missing. The pages have the same text as --help. Packages contain them.`,
		Example: `  tenaq man ~/.local/share/man/man1 && man tenaq-send`,
		Args:    cli.Wants(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			pages := manPages(cmd.Root())
			for name, page := range pages {
				err := os.WriteFile(filepath.Join(args[0], name), []byte(page), 0o644)
				if err != nil {
					return err
				}
			}
			return a.Result(map[string]any{"directory": args[0], "pages": len(pages)},
				"%s: %s written", args[0], cli.Counted(len(pages), "page", "pages"))
		},
	}
}

// manPages returns the manual page of a command and of each below it, by file name.
func manPages(cmd *cobra.Command) map[string]string {
	pages := map[string]string{manName(cmd) + ".1": manPage(cmd)}
	for _, sub := range cmd.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		maps.Copy(pages, manPages(sub))
	}
	return pages
}

func manName(cmd *cobra.Command) string {
	return strings.ReplaceAll(cmd.CommandPath(), " ", "-")
}

// manPage writes a page in the language of man(7). Help texts are laid out by hand, so they keep
// their lines.
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	name := manName(cmd)
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"tenaq %s\" \"tenaq\"\n",
		roff(strings.ToUpper(name)), roff(cli.BuildVersion().Version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	verbatim := func(title, text string) {
		if text != "" {
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", title, roff(text))
		}
	}
	verbatim("DESCRIPTION", cmd.Long)
	cmd.InitDefaultHelpFlag()
	b.WriteString(".SH OPTIONS\n")
	option := func(flag *pflag.Flag) {
		if flag.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(flag)
		spelling := "--" + flag.Name
		if flag.Shorthand != "" {
			spelling = "-" + flag.Shorthand + ", " + spelling
		}
		if value != "" {
			spelling += " " + value
		}
		if d := flag.DefValue; d != "" && d != "false" && d != "[]" && d != "0" {
			usage += " (default " + d + ")"
		}
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(spelling), roff(usage))
	}
	cmd.LocalFlags().VisitAll(option)
	cmd.InheritedFlags().VisitAll(option)
	verbatim("EXAMPLES", cmd.Example)
	var also []string
	if cmd.HasParent() {
		also = append(also, manName(cmd.Parent()))
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			also = append(also, manName(sub))
		}
	}
	for i, page := range also {
		also[i] = ".BR " + roff(page) + " (1)"
	}
	fmt.Fprintf(&b, ".SH SEE ALSO\n%s\n", strings.Join(also, " ,\n"))
	return b.String()
}

// roff writes text so that roff prints it as it is: a dash stays one that can be copied, and no
// line begins with a request.
func roff(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`,
			"~", `\(ti`).Replace(line)
		if strings.HasPrefix(line, ".") {
			line = `\&` + line
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}
