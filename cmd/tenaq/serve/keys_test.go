package serve

import (
	"strings"
	"testing"

	"tenaq/internal/cli"
	"tenaq/internal/settings"
)

// A single key comes from the environment, and is for the account that is set. [AUTH-37]
func TestOpenCredentials(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string
		want string // a part of the error
	}{
		{"none", nil, ""},
		{"one", map[string]string{"TENAQ_ACCESS_KEY_ID": "TQONE001", "TENAQ_SECRET_ACCESS_KEY": "canary-of-the-only-one"}, ""},
		{"half", map[string]string{"TENAQ_ACCESS_KEY_ID": "TQONE001"}, "must be set, or neither"},
		{"weak", map[string]string{"TENAQ_ACCESS_KEY_ID": "TQONE001", "TENAQ_SECRET_ACCESS_KEY": "canary"}, "can be guessed"},
	} {
		c := &settings.Configuration{}
		c.Account = "111122223333"
		keys, err := openCredentials(c, func(name string) string { return tt.env[name] })
		switch {
		case tt.want != "":
			if cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%s: got %v, want %q and no secret", tt.name, err, tt.want)
			}
		case err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case (keys == nil) != (tt.env == nil):
			t.Errorf("%s: got %v", tt.name, keys)
		case keys != nil:
			if k := keys.Find("TQONE001"); k == nil || k.Account != "111122223333" || !k.Allows("sqs:DeleteQueue") {
				t.Errorf("%s: got %v, want a key that may do everything in account 111122223333", tt.name, k)
			}
		}
	}
}
