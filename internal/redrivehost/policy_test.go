package redrivehost

import (
	"testing"

	"github.com/spf13/pflag"
)

// A script may pass --cool-down "$COOL_DOWN" without setting the variable.
func TestEmptyPolicyFlagMeansDefault(t *testing.T) {
	for _, field := range PolicyFields {
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		p := PolicyFlags(flags)
		if err := flags.Parse([]string{"--" + field.Name, ""}); err != nil {
			t.Errorf("--%s without a value: %v", field.Name, err)
		}
		if *p != DefaultPolicy() {
			t.Errorf("--%s without a value changed the default to %+v", field.Name, *p)
		}
	}
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	p := PolicyFlags(flags)
	if err := flags.Parse([]string{"--near", "7m", "--rate-max=9", "--near=", "--rate-max="}); err != nil {
		t.Fatal(err)
	}
	if *p != DefaultPolicy() {
		t.Errorf("the last, empty value left %+v", *p)
	}
}
