package console_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// A note about a kind of failure is written, replaced and removed, each with a way back, and shows
// who wrote it and when. [NACK-23, CONSOLE-15]
func TestNote(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.failing("orders")
	b := s.open(t, "#/q/orders-dlq/dead")
	const shown = `[...document.querySelectorAll(".kindhead .note")].map((e) => e.innerText).join(", ")`
	has := func(text string) {
		t.Helper()
		b.until("the note is "+text, fmt.Sprintf(`%s === %s`, shown, quoted(text)))
	}
	write := func(text, button string) {
		t.Helper()
		b.asks(".kindbody button", "Note…", "Note on: CardDeclined")
		b.fill("Note for", text)
		b.shows("tenaq dead note orders-dlq")
		b.click("dialog[open] footer button[type=submit]", button)
		b.closes()
	}
	b.click(".kindhead", "CardDeclined")
	b.asks(".kindbody button", "Note…", "Note on: CardDeclined")
	if !eval[bool](b, `document.querySelector("dialog[open] button[type=submit]").disabled`) {
		t.Error("no text is saved as a note")
	}
	b.judged("note")
	b.press("\x1b")
	b.closes()
	write("ask bank", "Save")
	has("ask bank")
	b.sees("Note by unsigned, ")
	b.until("its tooltip says who and when", `/^unsigned, .*20\d\d/.test(document.querySelector(".kindhead .note").title)`)
	b.judged("noted")
	write("ask the bank first", "Save")
	has("ask the bank first")
	b.click(".toast button", "Undo")
	has("ask bank")
	write("", "Remove")
	has("")
	b.click(".toast button", "Undo")
	has("ask bank")
	s.logged("NoteReason", "orders-dlq")
	b.asks(".kindbody button", "Note…", "Note on: CardDeclined")
	b.fill("Note for", strings.Repeat("é", 251))
	b.click("dialog[open] footer button[type=submit]", "Save")
	b.until("it is too long", `document.querySelector("dialog[open] .problem[role=alert]")?.innerText.includes("502 bytes, and at most 500")`)
	b.press("\x1b")
	b.closes()
	has("ask bank")
}

// Notes stay text. [CONSOLE-6]
func TestHostileNotes(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	lines := corpus(t)
	s.addHostile(lines)
	var list struct{ Kinds []struct{ Kind string } }
	s.ask("/v1/queues/hostile-dlq/reasons", nil, &list)
	lines = slices.DeleteFunc(lines, func(line string) bool { return len(line) > 500 || strings.ContainsFunc(line, unicode.IsControl) })
	lines = lines[:min(len(lines), len(list.Kinds))]
	if len(lines) < 40 {
		t.Fatalf("only %d lines can be notes", len(lines))
	}
	for i, line := range lines {
		s.ask("/v1/queues/hostile-dlq/reasons/"+url.PathEscape(list.Kinds[i].Kind)+"/note", object{"text": line}, nil)
	}
	b := s.open(t, "#/q/hostile-dlq/dead")
	b.until("all notes are there", fmt.Sprintf(`document.querySelectorAll(".kindhead .note").length === %d`, len(lines)))
	says := eval[[]string](b, `[...document.querySelectorAll(".kindhead .note")].map((e) => e.textContent)`)
	for _, line := range lines {
		if want := shownAs(line); !slices.Contains(says, want) {
			t.Errorf("the note %q is not shown as %q", line, want)
		}
	}
	b.harmless("the notes")
}
