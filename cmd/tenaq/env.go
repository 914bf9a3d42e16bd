package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tenaq/internal/cli"
)

func newEnvCmd(a *cli.App) *cobra.Command {
	var shell string
	f := &cli.ClientFlags{}
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Print the environment that points AWS SDKs at the server",
		Long: `Print the environment that points the AWS SDKs and the AWS CLI at the server.

SDKs read the address from AWS_ENDPOINT_URL_SQS since these versions:
  Python      boto3 1.28.0
  JavaScript  v3, 3.428.0
  Java        v2, 2.28.1
  Go          v2, service/sqs 1.26.0 with config 1.21.0
  AWS CLI     2.13.0
Older versions and SDKs (JavaScript v2, Java v1, Go v1) need the address in
code.

The AWS CLI v1 ignores the variable and sends requests for SQS to Amazon unless
it gets --endpoint-url. For sh, bash, zsh and fish, the output therefore defines
a function aws that adds this flag to "aws sqs", unless aws is an alias, a
function or not installed. Scripts and other programs do not see the function:
add the flag there yourself.

The credentials are those in TENAQ_ACCESS_KEY_ID and TENAQ_SECRET_ACCESS_KEY,
which a server reads too. Without them, the command prints placeholders for a
server on this machine: a server without keys checks none, but no SDK starts
without credentials. For other servers, set the credentials yourself.`,
		Example: `  eval "$(tenaq env)"
  tenaq env --shell fish | source
  tenaq env --shell powershell | Invoke-Expression
  tenaq env --endpoint-url https://queue.example.com --region eu-west-1`,
		Args: cli.Wants(0, 0),
		RunE: func(*cobra.Command, []string) error {
			e, err := f.Resolve()
			switch {
			case err != nil:
				return err
			case e.IsAmazon():
				return cli.Usagef("nothing to set: the SDKs find Amazon by themselves")
			}
			dialect, ok := shells[shell]
			if !ok {
				return cli.Usagef("--shell: %q is not one of %s", shell,
					strings.Join(shellNames, ", "))
			}
			vars := sdkEnvironment(e,
				cmp.Or(cli.ResolveRegion(f.Region, os.Getenv), cli.DefaultRegion), os.Getenv)
			if a.JSON {
				m := map[string]string{}
				for _, v := range vars {
					m[v.name] = v.value
				}
				return a.PrintJSON(m)
			}
			for _, v := range vars {
				if _, err := fmt.Fprintln(a.Stdout, dialect.set(v.name, v.value)); err != nil {
					return err
				}
			}
			if dialect.function != "" {
				if _, err := fmt.Fprintln(a.Stdout, dialect.function); err != nil {
					return err
				}
			} else {
				a.Note("the AWS CLI before 2.13 ignores AWS_ENDPOINT_URL_SQS and goes to Amazon; add to its commands: --endpoint-url %s", e)
			}
			if len(vars) == 3 { // there is no key among them
				a.Note("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to credentials of %s", e)
			}
			return nil
		},
	}
	f.Register(cmd)
	cmd.Flags().StringVar(&shell, "shell", "sh", "`shell`: sh, bash, zsh, fish, powershell")
	cli.Completes(cmd, "shell", shellNames...)
	return cmd
}

type variable struct{ name, value string }

// sdkEnvironment returns the address, the region and, if there is one, a key.
func sdkEnvironment(e cli.Endpoint, region string, getenv func(string) string) []variable {
	vars := []variable{
		{"AWS_ENDPOINT_URL_SQS", e.URL},
		{"AWS_REGION", region},
		{"AWS_DEFAULT_REGION", region}, // as boto3 and the old AWS CLI call it
	}
	id, secret, ok := e.OwnKey(getenv)
	if !ok && e.IsLoopback() {
		id, secret, ok = cli.OpenID, cli.OpenSecret, true
	}
	if ok {
		vars = append(vars, variable{"AWS_ACCESS_KEY_ID", id},
			variable{"AWS_SECRET_ACCESS_KEY", secret})
	}
	return vars
}

type dialect struct {
	set      func(name, value string) string
	function string // gives "aws sqs" the address; empty where none is written
}

var shellNames = []string{"sh", "bash", "zsh", "fish", "powershell"}

// shells has the dialects. Values are quoted where they hold more than plain characters.
var shells = map[string]dialect{
	"sh":   bourne,
	"bash": bourne,
	"zsh":  bourne,
	"fish": {
		set: func(name, value string) string {
			return "set -gx " + name + " " + quote(strings.ReplaceAll(value, `\`, `\\`), `\'`)
		},
		function: fishFunction,
	},
	"powershell": {set: func(name, value string) string {
		return "$env:" + name + " = '" + strings.ReplaceAll(value, "'", "''") + "'"
	}},
}

var bourne = dialect{
	set: func(name, value string) string {
		return "export " + name + "=" + quote(value, `'\''`)
	},
	function: bourneFunction,
}

// The functions add --endpoint-url before all other arguments, so that one given by hand comes
// later and wins. They look for the word sqs as the service: first, or after options. They replace
// no alias or function of the user, and are not defined if aws is not installed.
const (
	bourneFunction = `case "$(command -v aws)" in /*) eval 'aws() { ` +
		`case "$*" in "sqs "*|-*" sqs "*) command aws ${AWS_ENDPOINT_URL_SQS:+"--endpoint-url=$AWS_ENDPOINT_URL_SQS"} "$@" ;; ` +
		`*) command aws "$@" ;; esac; }' ;; esac`
	fishFunction = `if command -q aws; and not functions -q aws; function aws; ` +
		`if set -q AWS_ENDPOINT_URL_SQS; and string match -qr '^(sqs |-.* sqs )' -- "$argv"; ` +
		`command aws --endpoint-url=$AWS_ENDPOINT_URL_SQS $argv; else; command aws $argv; end; end; end`
)

// quote puts value between single quotes unless it needs none; quoted stands for a quote within it.
func quote(value, quoted string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@%+,"
	if value != "" && strings.Trim(value, plain) == "" {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", quoted) + "'"
}
