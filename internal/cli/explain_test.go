package cli

import (
	"testing"

	"github.com/aws/smithy-go"
)

// The error for a denial says what would allow the request. It does not send the user to check
// credentials that are valid.
func TestExplainDenial(t *testing.T) {
	const user = "User: arn:aws:iam::000000000000:user/u is not authorized to perform: "
	for _, tt := range []struct{ kind, message, want string }{
		{"AccessDenied", user + "sqs:sendmessage on resource: q", "; allow it for the key, or in the policy of the queue"},
		{"AccessDeniedException", user + "sqs:sendmessage on resource: q with an explicit deny in a resource-based policy", "; remove what denies it from that policy"},
		{"AccessDenied", user + "cloudwatch:putmetricalarm on resource: a", "; allow it for the key"},
		{"AccessDenied", `This server does not accept the Host "evil.example": add it with --allowed-hosts.`, ""},
		{"AccessDenied", "Requests from web pages of other origins are refused.", ""},
		{"AccessDenied", "Access to the resource https://sqs.us-east-1.amazonaws.com/ is denied.", "; allow it for the key, or in the policy of the queue"},
		{"AccessDenied", "", "; allow it for the key, or in the policy of the queue"},
	} {
		answer := &smithy.GenericAPIError{Code: tt.kind, Message: tt.message}
		message := "denied"
		if tt.message != "" {
			message = tt.message
			if message[len(message)-1] == '.' {
				message = message[:len(message)-1]
			}
		}
		want := "send to orders: " + message + " (" + tt.kind + ")" + tt.want
		err := (&Client{}).Explain("send to", "orders", answer)
		if got := errorText(err); got != want || ExitCode(err) != ExitFailed {
			t.Errorf("got %q, exit code %d, want %q, exit code %d", got, ExitCode(err), want, ExitFailed)
		}
		if IsPassing(answer) {
			t.Errorf("%s: got one that passes, want none", tt.message)
		}
	}
}
