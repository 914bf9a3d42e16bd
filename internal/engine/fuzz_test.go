package engine

import (
	"bytes"
	"testing"

	"tenaq/internal/engine/row"
)

func FuzzToken(f *testing.F) {
	f.Add(sealToken("orders"))
	f.Add("garbage")
	f.Fuzz(func(t *testing.T, token string) {
		name, ok := openToken(token)
		if !ok || token == "" {
			return
		}
		if back, ok := openToken(sealToken(name)); !ok || back != name {
			t.Errorf("token %q means %q, whose token means %q", token, name, back)
		}
	})
}

func FuzzDraft(f *testing.F) {
	f.Add("hello", "color", "String", "red", []byte(nil))
	f.Add("h\xff", "a..b", "Binary.x", "", []byte{0})
	f.Add("h", "n", "Number", "-1.5e-10", []byte(nil))
	f.Fuzz(func(t *testing.T, body, name, kind, text string, raw []byte) {
		entry := Entry{
			Body: Text{Value: body, Set: true},
			Attributes: []EntryAttribute{{
				Name: name, Type: Text{Value: kind, Set: kind != ""},
				String: Text{Value: text, Set: text != ""}, Binary: raw, HasBinary: raw != nil,
			}},
		}
		d := NewDraft(entry)
		if d.noBody || d.attributes != nil || d.letters != nil {
			return
		}
		c, ok := row.DecodeContent(append(d.content.head, d.content.body...))
		if !ok || c.Body != body || c.Attributes[0].Name != name || c.Attributes[0].Type != kind ||
			c.Attributes[0].String != text || !bytes.Equal(c.Attributes[0].Binary, raw) {
			t.Errorf("%+v was accepted and reads as %+v, %v", entry, c, ok)
		}
		if want := int64(len(body) + len(name) + len(kind) + len(text) + len(raw)); d.size != want {
			t.Errorf("size %d, want %d", d.size, want)
		}
	})
}
