package cli

import (
	"net/http/httptest"
	"testing"
	"time"

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

// An expired key is not mistyped, and its user cannot extend it.
func TestExplainExpired(t *testing.T) {
	const url = "https://queue.example"
	for e, want := range map[Endpoint]string{
		{URL: url}: "send to orders: the key for " + url + " has expired (ExpiredTokenException); the operator of the server extends it in the credentials file, or replaces it",
		{}:         "send to orders: the credentials have expired (ExpiredTokenException); renew them, for example with: aws sso login",
	} {
		err := (&Client{Endpoint: e}).Explain("send to", "orders", &smithy.GenericAPIError{
			Code: "ExpiredTokenException", Message: "The security token included in the request is expired"})
		if got := errorText(err); got != want || ExitCode(err) != ExitFailed {
			t.Errorf("got %q, exit code %d, want %q", got, ExitCode(err), want)
		}
	}
}

func TestExplainScheme(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "x")
	server := httptest.NewServer(nil)
	defer server.Close()
	f := ClientFlags{EndpointURL: "https://" + server.Listener.Addr().String(), Timeout: time.Minute}
	c, err := f.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.QueueURL(t.Context(), "orders")
	if got, want := errorText(err), f.EndpointURL+" is served without TLS; write http:// in the address, which comes from --endpoint-url"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
