package worker

import "testing"

// An error is final only if a retry would be refused again: an invalid handle. Throttling passes,
// although the sender is at fault, and so do faults of the server.
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
