package cli

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// AsGroup makes a command that only holds others print its help when it is given nothing, and
// refuse an unknown word. Cobra would print the help and report success.
func AsGroup(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return noCommand(cmd, args[0])
	}
}

func noCommand(group *cobra.Command, word string) error {
	return Usagef("%s has no command %q%s", group.CommandPath(), word, SuggestCommand(group, word))
}

// Wants checks the number of arguments: from low to high, without an upper bound if high is
// negative. The error shows the usage line. An empty name is often a variable that is not set.
func Wants(low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < low:
			return Usagef("%s needs more arguments; usage: %s", cmd.CommandPath(), cmd.UseLine())
		case high == 0 && len(args) > 0 && cmd.HasAvailableSubCommands():
			return noCommand(cmd, args[0])
		case high >= 0 && len(args) > high:
			return Usagef("%s does not take %q; usage: %s", cmd.CommandPath(), args[high],
				cmd.UseLine())
		}
		for i, text := range args {
			words := strings.Fields(cmd.Use)[1:]
			name := strings.Trim(words[min(i, len(words)-1)], "[].")
			// Commands themselves say more about a body or a text.
			if text == "" && name != "BODY|-" && name != "TEXT" {
				return Usagef("%s is empty; usage: %s", name, cmd.UseLine())
			}
		}
		return nil
	}
}

// A value is a flag whose text is checked when the command line is parsed.
type value struct {
	kind, text string
	optional   bool // it has no default
	set        func(string) error
}

func (v *value) String() string { return v.text }

func (v *value) Type() string { return v.kind }

func (v *value) Set(text string) error {
	if text == "" && v.optional { // often a variable of a script that is not set
		return errors.New("it is empty: give a value, or leave the flag out")
	}
	err := v.set(text)
	if err == nil {
		v.text = text
	}
	return err
}

func (v *value) add(flags *pflag.FlagSet, name, usual, usage string) {
	if v.optional = usual == ""; !v.optional {
		if err := v.Set(usual); err != nil {
			panic("default of --" + name + ": " + err.Error())
		}
	}
	flags.Var(v, name, usage)
}

// Value adds a flag whose text parse reads. usual is the default as a user would write it. Without
// one, the value stays as it is until the flag is set.
func Value[V any](
	flags *pflag.FlagSet, to *V, name, usual, usage string, parse func(string) (V, error),
) {
	v := &value{kind: "string", set: func(text string) (err error) {
		*to, err = parse(text)
		return err
	}}
	v.add(flags, name, usual, usage)
}

// Text adds a flag for a text that is not empty.
func Text(flags *pflag.FlagSet, to *string, name, usage string) {
	Value(flags, to, name, "", usage, func(text string) (string, error) { return text, nil })
}

// Duration adds a flag for a duration of at least zero, and SomeTime one for a longer duration.
func Duration(flags *pflag.FlagSet, to *time.Duration, name, usual, usage string) {
	Value(flags, to, name, usual, usage, ParseDuration)
}

func SomeTime(flags *pflag.FlagSet, to *time.Duration, name, usual, usage string) {
	Value(flags, to, name, usual, usage, SomeDuration)
}

// Number adds a flag for a whole number from low to high, without an upper bound if high is 0. A
// default below low is that of a flag that is not set.
func Number[N int | int32 | int64](
	flags *pflag.FlagSet, to *N, name string, usual, low, high N, usage string,
) {
	v := &value{kind: "int", set: func(text string) error {
		n, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			text = strconv.Quote(text)
		}
		switch {
		case high > 0 && (err != nil || n < int64(low) || n > int64(high)):
			return fmt.Errorf("%s is not a number from %d to %d", text, low, high)
		case err != nil || n < int64(low) || int64(N(n)) != n:
			return fmt.Errorf("%s is not a number of at least %d", text, low)
		}
		*to = N(n)
		return nil
	}}
	if *to = usual; usual < low {
		v.add(flags, name, "", usage)
		return
	}
	v.add(flags, name, fmt.Sprint(usual), usage)
}

// Choice adds a flag that takes one of several words, and completes it.
func Choice(cmd *cobra.Command, to *string, name, usual, usage string, words ...string) {
	Value(cmd.Flags(), to, name, usual, usage, OneOf(words...))
	Completes(cmd, name, words...)
}

func Completes(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// FlagOr returns the text of a flag, or of an environment variable if the flag is not set, and the
// name of the one that was used.
func FlagOr(flag, text, variable string, getenv func(string) string) (value, origin string) {
	if text != "" {
		return text, flag
	}
	return getenv(variable), variable
}

// FlagError explains why a flag could not be parsed.
func FlagError(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		cause := errors.Unwrap(err)
		if n, ok := errors.AsType[*strconv.NumError](cause); ok && n.Func == "ParseBool" {
			cause = fmt.Errorf("%q is neither true nor false", n.Num)
		} else if ok {
			cause = fmt.Errorf("%q is not a number", n.Num)
		}
		return Usagef("--%s: %v", invalid.GetFlag().Name, cause)
	}
	return Usagef("%v%s", err, cmp.Or(suggestFlag(cmd, err), "; see: "+cmd.CommandPath()+" --help"))
}

// suggestFlag says which flag was probably meant by one that err says is unknown, or "".
func suggestFlag(cmd *cobra.Command, err error) string {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return ""
	}
	var names []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			names = append(names, "--"+flag.Name)
		}
	})
	return DidYouMean("--"+unknown.GetSpecifiedName(), names)
}

const listMax = 8

// SuggestCommand says which command of a group was probably meant, or which there are.
func SuggestCommand(group *cobra.Command, word string) string {
	var names []string
	for _, c := range group.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	switch near := DidYouMean(word, names); {
	case near != "":
		return near
	case len(names) <= listMax:
		return "; there are: " + strings.Join(names, ", ")
	}
	return "; see: " + group.CommandPath() + " --help"
}
