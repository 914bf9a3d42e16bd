package worker

import "testing"

// Only what would be refused again is final: a handle that is no longer good. Throttling passes
// although it is the sender's fault, and what is the server's fault passes too.
func TestFinal(t *testing.T) {
	for _, c := range []struct {
		code        string
		senderFault bool
		want        bool
	}{
		{"ReceiptHandleIsInvalid", true, true},
		{"InvalidParameterValue", true, true},
		{"AWS.SimpleQueueService.MessageNotInflight", true, true},
		{"RequestThrottled", true, false},
		{"ThrottlingException", true, false},
		{"InternalError", false, false},
		{"ServiceUnavailable", false, false},
	} {
		if got := (&entryError{code: c.code, senderFault: c.senderFault}).final(); got != c.want {
			t.Errorf("%s: got %v, want %v", c.code, got, c.want)
		}
	}
}
