package console_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// A filled is a dialog into which each line of the corpus is typed.
type filled struct {
	action string // one that it offers
	at     string // address of the page
	before func(*tab)
	button [2]string // selector and text
	title  string
	opened func(*tab)
	fields []string    // beginnings of their labels
	submit [][2]string // what it is sent with, if it is sent
	says   string      // what the page says then: what was done, or why not
}

// filledDialogs are those of a server with hostile content, in an order in which they can be sent.
func filledDialogs(lines []string, letter, task string) []filled {
	triage := func(action, text, title string, fields ...string) filled {
		return filled{action: action, at: "#/q/hostile-dlq/dead", before: func(b *tab) {
			b.until("a kind is open", `document.querySelector(".kindbody") ?? document.querySelector(".kindhead")?.click()`)
		}, button: [2]string{".kindbody button", text}, title: title + ": ", fields: fields}
	}
	missing := triage("create-missing", "Park", "Park")
	missing.opened = func(b *tab) {
		b.fill("Parking queue", lines[0])
		b.sees("There is no queue " + lines[0])
		b.click("dialog[open] button", "Create it")
		b.sees("alphanumeric")
	}
	note := triage("note", "Note", "Note on", "Note for")
	note.submit, note.says = [][2]string{{"Note for", lines[2]}}, "Saved the note."
	return []filled{
		{action: "create", at: "#/", button: [2]string{"main button", "Create a queue"}, title: "Create a queue", fields: []string{"Name"},
			submit: [][2]string{{"Name", lines[0]}}, says: "alphanumeric"},
		{action: "send", at: "#/q/hostile", button: [2]string{"button", "Send a message"}, title: "Send a message to hostile",
			opened: func(b *tab) { b.click("dialog[open] button", "Add an attribute") },
			fields: []string{"Body", "Name of attribute 1", "Value of attribute 1"}},
		{action: "send", at: "#/q/hostile.fifo", button: [2]string{"button", "Send a message"}, title: "Send a message to hostile.fifo",
			fields: []string{"Body", "Message group", "Deduplication id"}, submit: [][2]string{{"Message group", lines[0]}}, says: "MessageGroupId"},
		{action: "purge", at: "#/q/hostile-dlq", button: [2]string{".titlebar button", "Purge"}, title: "Purge hostile-dlq", fields: []string{"To confirm"}},
		{action: "delete-queue", at: "#/q/hostile-dlq", button: [2]string{".titlebar button", "Delete"}, title: "Delete hostile-dlq", fields: []string{"To confirm"}},
		{action: "settings", at: "#/q/hostile/settings", button: [2]string{"button", "Change"}, title: "Settings of hostile"},
		{action: "tag", at: "#/q/hostile/settings", button: [2]string{"button", "Set a tag"}, title: "Set a tag of hostile", fields: []string{"Key", "Value"},
			submit: [][2]string{{"Key", lines[2]}, {"Value", lines[1]}}, says: "Tag keys and values can only contain"},
		triage("redrive", "Send back", "Send back", "Note"), triage("park", "Park", "Park", "Parking queue", "Note"),
		missing, triage("move", "Move to", "Move to another queue", "Queue", "Note"), triage("delete", "Delete", "Delete", "To confirm", "Note"), note,
		{action: "edit", at: "#/m/" + letter, button: [2]string{"button", "Edit and send"}, title: "Edit and send", fields: []string{"Body", "Value of attribute 1", "Queue"},
			submit: [][2]string{{"Queue", lines[0]}}, says: "queue"},
		{action: "task-rate", at: "#/tasks/" + task, button: [2]string{"button", "Change the rate"}, title: "Rate of " + task},
		{action: "acknowledge-note", at: "#/alarms", button: [2]string{"button", "Acknowledge with a note"}, title: "Acknowledge ", fields: []string{"Note"},
			submit: [][2]string{{"Note", lines[2]}}, says: "with the note."},
		{action: "silence", at: "#/alarms", button: [2]string{"button", "Silence…"}, title: "Silence alarms", fields: []string{"Alarms", "For", "Reason"},
			submit: [][2]string{{"Alarms", lines[2]}, {"For", "1h"}, {"Reason", lines[0]}}, says: "Silenced " + lines[2]},
		{action: "settle", at: "#/claims/" + url.PathEscape("parked "+lines[3]), button: [2]string{"button", "Settle"}, title: "Settle parked " + lines[3], fields: []string{"Reason", "Result"},
			submit: [][2]string{{"Reason", lines[1]}, {"Result", lines[2]}}, says: "Recorded that parked " + lines[3] + " is done."},
		{action: "release", at: "#/claims/" + url.PathEscape("held "+lines[2]), button: [2]string{"button", "Release"}, title: "Release held " + lines[2], opened: func(b *tab) { b.click("dialog[open] .check input", "") }, fields: []string{"Reason"},
			submit: [][2]string{{"Reason", lines[1]}}, says: "held " + lines[2] + " can be claimed again."},
		{action: "row-release", at: "#/outbox/shop", button: [2]string{"main p.acts button", "Release all"}, title: "Release 1 row of shop"},
		{action: "row-discard", at: "#/outbox/shop", button: [2]string{"main table button", "Discard"}, title: "Discard 1 row of shop", fields: []string{"To confirm"},
			submit: [][2]string{{"To confirm", "1"}}, says: "Ordered: a relay of shop discards 1 row"},
		{action: "plan", at: "#/redrivers/hostile-dlq", button: [2]string{".alarmbox button", "Plan the next step"}, title: "Plan the next step of hostile-dlq",
			submit: [][2]string{}, says: "the next step would send"},
		{action: "step", at: "#/redrivers/hostile-dlq", button: [2]string{".alarmbox button", "Take a step"}, title: "Take a step of hostile-dlq",
			submit: [][2]string{}, says: "hostile-dlq: sent"},
	}
}

// inPage is what runs in the page: it waits, and tells what is wrong.
const inPage = `const wrong = [], foreign = () => ` + foreign + `, tick = (ms) => new Promise((done) => setTimeout(done, ms));
	const turn = () => new Promise((done) => { const c = new MessageChannel(); c.port1.onmessage = done; c.port2.postMessage(0) }); // sooner than a timer
	const until = async (what, is) => { for (const end = Date.now() + 100_000; ; await tick(5)) { const it = is(); if (it) return it; if (Date.now() > end) throw new Error(what + " never was; the page says: " + document.body.innerText) } };
	const harmless = (where) => { const found = foreign(); if (found) wrong.push(where + ": " + found) };`

// types types each line into the fields of the open dialog. The fields and the command have what
// was typed. A line that could be taken for something else is in no command.
func (b *tab) types(where string, fields, lines []string) {
	b.t.Helper()
	got := eval[struct{ Wrong, Commands, Shown []string }](b, fmt.Sprintf(`(async (where, fields, lines) => { %s
		const typed = [];
		for (const name of fields ?? []) typed.push([name, await until("a field " + name, () => [...document.querySelectorAll("dialog[open] label.field")].find((l) => l.querySelector("span").textContent.startsWith(name))?.querySelector("input, textarea") ?? document.querySelector('dialog[open] [aria-label^="' + name + '"]'))]);
		const dialog = document.querySelector("dialog[open]");
		const commands = [], shown = [];
		for (const line of lines) {
			for (const [, e] of typed) { e.value = line; e.dispatchEvent(new Event("input", {bubbles: true})); }
			await turn();
			await turn();
			harmless(where + ", " + line);
			const all = [...dialog.querySelectorAll(".same code")].map((e) => e.textContent), command = all.join("\n"), same = dialog.querySelector(".same").textContent;
			commands.push(...all);
			for (const [name, e] of typed) {
				if (e.value !== (e.tagName === "TEXTAREA" ? line.replace(/\r\n?/g, "\n") : line.replace(/[\r\n]/g, ""))) wrong.push(where + ", " + name + " of " + line + " has " + e.value);
				if (name === "To confirm") continue;
				if (command.includes(e.value.replaceAll("'", "'\\''"))) shown.push(e.value);
				else if (!same.includes(%s) && !same.includes("an equals sign")) wrong.push(where + ", " + name + ": the command has no " + line + ": " + command);
			}
		}
		return { wrong, commands, shown };
	})(%s, %s, %s)`, inPage, quoted(unsafe), quoted(where), must(json.Marshal(fields)), must(json.Marshal(lines))))
	for _, w := range got.Wrong {
		b.t.Error(w)
	}
	words := b.words(got.Commands)
	for _, text := range got.Shown {
		if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, text) }) {
			b.t.Errorf("%s: no word of a command has %s", where, text)
		}
	}
	if len(got.Shown) < len(lines)/2 && slices.ContainsFunc(fields, func(f string) bool { return f != "To confirm" }) {
		b.t.Errorf("%s: the commands have only %d texts that were typed", where, len(got.Shown))
	}
}

// words are those of commands that were copied into a shell, which must make nothing else of them.
// It has no other program and no home.
func (b *tab) words(commands []string) (words []string) {
	b.t.Helper()
	cmd := exec.Command("sh", "-e")
	cmd.Dir = b.t.TempDir()
	cmd.Env = []string{"PATH=" + cmd.Dir, "HOME=" + cmd.Dir}
	cmd.Stdin = strings.NewReader(`tenaq() { printf '%s\0' "$@"; }` + "\n" + strings.Join(commands, "\n"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.t.Errorf("copied commands: %v, %s", err, out)
	}
	if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) > 0 {
		b.t.Errorf("a copied command has run a part of a text: %v, %v", left, err)
	}
	return strings.Split(string(out), "\x00")
}

// unsafe is what stands for a command with a text that could be taken for something else.
const unsafe = "A name contains characters that are not safe to copy into a shell."

// An opened is a dialog over one piece of hostile content.
type opened struct {
	At     string    `json:"at"`     // address of the page
	Row    int       `json:"row"`    // the number of its kind, or -1
	Ready  [2]string `json:"ready"`  // what the page shows first: a selector, and its whole text
	Button [2]string `json:"button"` // a selector, and the beginning of its text
	Title  string    `json:"title"`  // its whole title, if it is known here
	Has    string    `json:"has"`    // an element of the dialog
	Values []string  `json:"values"` // of fields
}

// opens opens dialogs one after the other.
func (b *tab) opens(all []opened) {
	b.t.Helper()
	for some := range slices.Chunk(all, 25) { // so that a busy machine has enough time
		for _, w := range eval[[]string](b, fmt.Sprintf(`(async (all) => { %s
			for (const d of all) {
				const where = d.at + " " + d.row + " " + d.button[1];
				if (location.hash !== d.at) location.hash = d.at;
				if (d.row >= 0) {
					const head = await until("row " + d.row, () => document.querySelectorAll(".kindhead")[d.row]);
					if (head.getAttribute("aria-expanded") !== "true") head.click();
					await until("it is open", () => head.getAttribute("aria-expanded") === "true" && head.nextElementSibling);
					d.title = d.title.replace("KIND", head.querySelector(".why").textContent);
				} else await until(where, () => document.querySelector(d.ready[0])?.textContent === d.ready[1]);
				(await until("the button of " + where, () => [...document.querySelectorAll(d.button[0])].find((e) => e.textContent.startsWith(d.button[1])))).click();
				const dialog = await until("the dialog of " + where, () => document.querySelector("dialog[open]:has(" + d.has + ")"));
				await turn();
				const title = dialog.querySelector("h2").textContent, values = [...dialog.querySelectorAll("input, textarea")].map((e) => e.value);
				if (!title.startsWith(d.title)) wrong.push(where + " has the title " + title + ", want " + d.title);
				for (const v of d.values ?? []) if (!values.includes(v)) wrong.push(where + " has the fields " + values + ", want " + v);
				harmless(where);
				dialog.querySelector("header button").click();
				await until("it closes", () => !document.querySelector("dialog.act"));
			}
			return wrong;
		})(%s)`, inPage, must(json.Marshal(some)))) {
			b.t.Error(w)
		}
		b.content()
	}
}

// Text that others have written stays text in the dialogs about it. [CONSOLE-6]
func TestHostileContentInDialogs(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	lines := corpus(t)
	bodies := s.addHostile(lines)
	b := s.open(t, "")
	var all []opened
	for id, line := range bodies {
		ready := [2]string{".message .id", id}
		body, one := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(line), strings.NewReplacer("\r", "", "\n", "").Replace(line)
		d := opened{At: "#/m/" + id, Row: -1, Ready: ready, Button: [2]string{".message button", "Send like this"}, Title: "Send a message to hostile-dlq", Has: "textarea", Values: []string{body, "__proto__", one}}
		if len(all)%2 == 0 {
			d.Button[1], d.Title = "Edit and send", "Edit and send "+id[:8]
		}
		all = append(all, d)
	}
	b.opens(all)

	b.goTo("#/q/hostile-dlq/dead")
	b.sees("kinds of failure")
	kinds := eval[int](b, `document.querySelectorAll(".kindhead").length`)
	if kinds < 50 {
		t.Fatalf("there are %d kinds", kinds)
	}
	triage := [][2]string{{"Send back", "Send back: KIND"}, {"Park", "Park: KIND"}, {"Move to", "Move to another queue: KIND"}, {"Delete", "Delete: KIND"}}
	all = nil
	for i := range kinds {
		of := triage[i%len(triage)]
		all = append(all, opened{At: "#/q/hostile-dlq/dead", Row: i, Button: [2]string{".kindbody button", of[0]}, Title: of[1], Has: ".samples li"})
	}
	b.opens(all)

	all = nil
	for i, line := range lines {
		if len(line) > 250 || strings.ContainsAny(line, "\r\n") || !utf8.ValidString(line) {
			line = fmt.Sprint("line ", i)
		}
		key := []string{"parked ", "done ", "held "}[i%3] + line
		switch i % 3 {
		case 0:
			s.put("claim/"+key, object{"v": 1, "state": "parked", "owner": line, "reason": line})
		case 1:
			s.put("claim/"+key, object{"v": 1, "state": "completed", "owner": line, "attempts": 1})
		case 2:
			s.claim(key, "acquire", object{"owner": line, "leaseMs": 3600_000})
		}
		do := []string{"Settle", "Release"}[i%2]
		all = append(all, opened{At: "#/claims/" + url.PathEscape(key), Row: -1, Ready: [2]string{"main h1", "Claims / " + shownAs(key)}, Button: [2]string{"main button", do}, Title: do + " " + shownAs(key), Has: ".field"})
	}
	b.opens(all)
}

// Text in the address stays text on the page and in the panel of its commands, and a shell reads
// these as the words that they show. [CONSOLE-6]
func TestHostileCommands(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.create("hostile", nil, object{"tenaq:history": "7d"})
	b := s.open(t, "")
	var commands, shown []string
	for some := range slices.Chunk(corpus(t), 25) {
		got := eval[struct{ Wrong, Commands, Shown []string }](b, fmt.Sprintf(`(async (lines) => { %s
			const commands = [], shown = [];
			for (const [i, line] of lines.entries()) {
				location.hash = "#/nowhere";
				await until("another page", () => document.querySelector("h1")?.textContent === "There is no such page");
				location.hash = ["#/claims?prefix=", "#/trace/", "#/q/hostile/history?text="][i %% 3] + encodeURIComponent(line);
				await until("the page of " + line, () => document.querySelector("h1")?.textContent !== "There is no such page");
				[...document.querySelectorAll("footer button")].find((e) => e.textContent.includes("Commands")).click();
				const panel = await until("the panel", () => document.querySelector("dialog[open]"));
				const all = () => [...panel.querySelectorAll(".line code")].map((e) => e.textContent), has = () => all().some((c) => c.includes(line.replaceAll("'", "'\\''")));
				await until("the command of " + line, () => has() || panel.textContent.includes(%s));
				if (has()) shown.push(line);
				commands.push(...all());
				harmless(location.hash);
				const closed = new Promise((done) => panel.addEventListener("close", done, {once: true}));
				panel.querySelector("header button").click();
				await closed; // or the page would hear of it when the next one is open
			}
			return { wrong, commands, shown };
		})(%s)`, inPage, quoted(unsafe), must(json.Marshal(some))))
		for _, w := range got.Wrong {
			t.Error(w)
		}
		commands, shown = append(commands, got.Commands...), append(shown, got.Shown...)
	}
	b.content()
	words := b.words(commands)
	for _, line := range shown {
		if !slices.Contains(words, line) {
			t.Errorf("no word of a command is %s", line)
		}
	}
	if len(shown) < 50 {
		t.Errorf("the commands have only %d lines", len(shown))
	}
}

// Typed text stays text in each dialog, and in the confirmation of the page. A shell reads the
// commands as the words that they show. [CONSOLE-6]
func TestHostileDialogs(t *testing.T) {
	t.Parallel()
	lines := corpus(t)
	config := filepath.Join(t.TempDir(), "tenaq.yaml")
	if err := os.WriteFile(config, []byte(`redrive:
  records: server
  queues:
    - {dead-letter: hostile-dlq, parking: lot, schedule: "0 0 1 1 *"}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serve(t, nil, "--config", config, "--alarm-minute", "1s")
	var letter string
	for id, line := range s.addHostile(lines) {
		if line == lines[4] {
			letter = id
		}
	}
	for _, queue := range []string{"lot", "slow"} {
		s.create(queue, nil, nil)
	}
	s.sendMany("slow", 3)
	var task struct{ ID string }
	s.ask("/v1/tasks", object{"queue": "slow", "do": "move", "to": "lot", "rate": 1, "expected": 3, "filter": object{}, "note": lines[0]}, &task)
	s.ask("/v1/tasks/"+task.ID+"/pause", object{}, nil)
	s.put("claim/parked "+lines[3], object{"v": 1, "state": "parked", "owner": lines[0], "reason": lines[0]})
	s.claim("held "+lines[2], "acquire", object{"owner": lines[0], "leaseMs": 3600_000})
	asReported(s)
	s.ask("/v1/outbox/shop/parked", object{"rows": []object{{"id": lines[0], "queue": lines[1], "key": lines[2], "reason": lines[3], "attempts": 1, "parkedAt": time.Now()}}, "orders": []string{"release", "discard"}}, nil)
	raised("hostile-dlq")(s)

	b := s.open(t, "")
	first := serve(t, nil)
	covered := make(map[string]bool)
	fill := func(b *tab, d filled) {
		t.Helper()
		covered[d.action] = true
		b.goTo("#/nowhere")
		b.sees("There is no such page")
		b.goTo(d.at)
		if d.before != nil {
			d.before(b)
		}
		b.asks(d.button[0], d.button[1], d.title)
		if d.opened != nil {
			d.opened(b)
		}
		where := d.action + " at " + d.at
		b.types(where, d.fields, lines)
		if d.submit != nil {
			for _, f := range d.submit {
				b.fill(f[0], f[1])
			}
			b.submit()
			b.until("the page says "+d.says, fmt.Sprintf(`(document.querySelector("dialog[open] .problem[role=alert]") ?? document.querySelector(".toast"))?.textContent.includes(%s)`, quoted(d.says)))
			b.harmless(where + ", when it was sent")
		}
		b.press("\x1b")
		b.closes()
	}
	for _, d := range filledDialogs(lines, letter, task.ID) {
		fill(b, d)
	}
	for _, queue := range []string{"orders", "late.fifo"} {
		fields := []string{"Queue", "Body"}
		d := filled{action: "send-first", at: "#/", button: [2]string{"main button", "Send a message"}, title: "Send a message", fields: fields, submit: [][2]string{{"Queue", lines[0]}}, says: "alphanumeric"}
		if queue != "orders" {
			d.opened = func(b *tab) { b.fill("Queue", queue) }
			d.fields, d.submit, d.says = []string{"Body", "Message group"}, [][2]string{{"Message group", lines[0]}}, "MessageGroupId"
		}
		fill(first.open(t, ""), d)
	}
	w := &twins{edit: make([]string, 3)}
	for _, p := range slices.Concat(w.all(), w.first()) {
		if p.dialog != "" && !covered[p.action] {
			t.Errorf("the dialog of %s is not opened over hostile content: add it to filledDialogs", p.action)
		}
	}
}
