package credentials

import "log/slog"

// A Secret is text that is not shown. It is kept in a function, because fmt looks into the fields
// of a struct without asking their methods, and has nothing to find there.
type Secret struct{ reveal func() string }

// NewSecret hides a text.
func NewSecret(text string) Secret { return Secret{func() string { return text }} }

// Reveal returns the text; the zero Secret has none.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

const redacted = "[redacted]"

func (s Secret) String() string               { return redacted }
func (s Secret) GoString() string             { return redacted }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
