package v1

import "tenaq/internal/engine"

// An attempt is what a consumer said when it gave a message back.
type attempt struct {
	How      string  `json:"how"` // retry, poison, release or returned
	Receive  uint32  `json:"receive"`
	Received *string `json:"received"`
	Ended    *string `json:"ended"`
	Class    string  `json:"class,omitempty"`
	Text     string  `json:"text,omitempty"`
}

// attemptsOf shows a story. [NACK-14]
func attemptsOf(s *engine.Story) (shown []attempt) {
	for _, a := range s.Attempts {
		shown = append(shown, attempt{How: a.How.String(), Receive: a.Receive,
			Received: timeText(a.Received), Ended: timeText(a.Ended), Class: a.Class, Text: a.Text})
	}
	return shown
}
