package main

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func newEnvCmd(a *app) *cobra.Command {
	var shell string
	f := &clientFlags{}
	cmd := &cobra.Command{
		Use:   "env",
		Short: "Print the environment that points AWS SDKs at the server",
		Long: `Print the environment that points the AWS SDKs and the AWS CLI at the server.

The credentials are those in $TENAQ_ACCESS_KEY_ID and $TENAQ_SECRET_ACCESS_KEY, from which a server takes its
key too. Without these, for a server on this machine, they mean nothing: a server without keys checks none,
but an SDK does not start without. Elsewhere the credentials are yours to set.`,
		Example: `  eval "$(tenaq env)"
  tenaq env --shell fish | source
  tenaq env --shell powershell | Invoke-Expression
  tenaq env --endpoint-url https://queue.example.com --region eu-west-1`,
		Args: wants(0, 0),
		RunE: func(*cobra.Command, []string) error {
			e, err := f.resolve()
			switch {
			case err != nil:
				return err
			case e.isAmazon():
				return usagef("there is nothing to set for Amazon; the SDKs find it by themselves")
			}
			write, ok := shells[shell]
			if !ok {
				return usagef("--shell: %q is none of sh, fish, powershell", shell)
			}
			vars := sdkEnvironment(e, cmp.Or(resolveRegion(f.region, os.Getenv), defaultRegion), os.Getenv)
			if a.json {
				m := map[string]string{}
				for _, v := range vars {
					m[v.name] = v.value
				}
				return a.printJSON(m)
			}
			for _, v := range vars {
				if _, err := fmt.Fprintln(a.stdout, write(v.name, v.value)); err != nil {
					return err
				}
			}
			if len(vars) == 3 { // there is no key among them
				a.note("set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to credentials of %s", e)
			}
			return nil
		},
	}
	f.register(cmd)
	cmd.Flags().StringVar(&shell, "shell", "sh", "write for this `shell`: sh, fish or powershell")
	return cmd
}

type variable struct{ name, value string }

// sdkEnvironment has the address and the region, and a key if there is one.
func sdkEnvironment(e endpoint, region string, getenv func(string) string) []variable {
	vars := []variable{
		{"AWS_ENDPOINT_URL_SQS", e.url},
		{"AWS_REGION", region},
		{"AWS_DEFAULT_REGION", region}, // as boto3 and the old AWS CLI call it
	}
	id, secret, ok := e.ownKey(getenv)
	if !ok && e.isLoopback() {
		id, secret, ok = openID, openSecret, true
	}
	if ok {
		vars = append(vars, variable{"AWS_ACCESS_KEY_ID", id}, variable{"AWS_SECRET_ACCESS_KEY", secret})
	}
	return vars
}

// shells says how a shell sets a variable. Values are quoted where they hold more than plain characters.
var shells = map[string]func(name, value string) string{
	"sh": func(name, value string) string {
		return "export " + name + "=" + quote(value, `'\''`)
	},
	"fish": func(name, value string) string {
		return "set -gx " + name + " " + quote(strings.ReplaceAll(value, `\`, `\\`), `\'`)
	},
	"powershell": func(name, value string) string {
		return "$env:" + name + " = '" + strings.ReplaceAll(value, "'", "''") + "'"
	},
}

// quote puts value between single quotes unless it needs none; quoted stands for a quote within it.
func quote(value, quoted string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/@%+,"
	if value != "" && strings.Trim(value, plain) == "" {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", quoted) + "'"
}
