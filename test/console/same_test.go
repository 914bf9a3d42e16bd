package console_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tenaq/internal/testing/built"
)

// A pressed is an action of the console, as a person carries it out.
type pressed struct {
	action  string // its name in the sources of the console
	about   string // the case, if the action has several
	at      string // address of the page
	prepare func(*server)
	before  func(*tab) // what is done on the page first
	button  [2]string  // selector and text
	dialog  string     // title of the dialog that it opens; empty if it asks nothing
	fill    [][2]string
	then    func(*tab) // what else is done in the dialog
}

const hostile = `it's $(id) "quoted" \ * & { "id": ` + exact + ` }`

// all are the buttons of all actions, each with a queue, a claim or an alarm of its own.
func (w *twins) all() []pressed {
	triage := func(action, about, queue, button, title string, fill ...[2]string) pressed {
		return pressed{action: action, about: about, at: "#/q/" + queue + "/dead", button: [2]string{".lead + .triage button", button}, dialog: title, fill: fill}
	}
	ofKind := func(p pressed) pressed {
		p.before = func(b *tab) { b.click(".kindhead", "CardDeclined") }
		p.button[0] = ".kindbody button"
		return p
	}
	attribute := func(name, value string) func(*tab) {
		return func(b *tab) {
			b.click("dialog[open] button", "Add an attribute")
			b.until("it is there", `[...document.querySelectorAll("dialog[open] .attr")].at(-1)?.querySelector("input").value === ""`)
			eval[bool](b, fmt.Sprintf(`(() => { const [n, v] = [...document.querySelectorAll("dialog[open] .attr")].at(-1).querySelectorAll("input");
				for (const [e, t] of [[n, %s], [v, %s]]) { e.value = t; e.dispatchEvent(new Event("input", {bubbles: true})) } return true })()`, quoted(name), quoted(value)))
		}
	}
	confirm := func(b *tab) { b.click("dialog[open] .check input", "") }
	removal := ofKind(triage("note", "that is removed", "loud-dlq", "Note", "Note on", [2]string{"Note", ""}))
	removal.prepare = func(s *server) { s.note("loud-dlq", "CardDeclined", "ask bank") }
	return []pressed{
		{action: "create", at: "#/", button: [2]string{"main button", "Create a queue"}, dialog: "Create a queue", fill: [][2]string{{"Name", "fresh"}, {"After this", "7"}}},
		{action: "create", about: "FIFO", at: "#/", button: [2]string{"main button", "Create a queue"}, dialog: "Create a queue", fill: [][2]string{{"Name", "fresh"}},
			then: func(b *tab) { b.click("dialog[open] .check", "FIFO") }},
		{action: "create", about: "alone", at: "#/", button: [2]string{"main button", "Create a queue"}, dialog: "Create a queue", fill: [][2]string{{"Name", "alone"}},
			then: func(b *tab) { b.click("dialog[open] .check", "Move messages") }},
		{action: "create", about: "with a dead-letter queue that exists", at: "#/", button: [2]string{"main button", "Create a queue"}, dialog: "Create a queue", fill: [][2]string{{"Name", "older"}}},
		{action: "send", at: "#/q/send", button: [2]string{"button", "Send a message"}, dialog: "Send a message", fill: [][2]string{{"Body", hostile}, {"Delay", "600"}}, then: attribute("tenant", hostile)},
		{action: "send", about: "to a group", at: "#/q/send.fifo", button: [2]string{"button", "Send a message"}, dialog: "Send a message", fill: [][2]string{{"Body", "x"}, {"Message group", "customer-7"}, {"Dedup", "it's-$(id)"}}},
		{action: "send", about: "like another", at: "#/m/" + w.like, button: [2]string{"button", "Send like this"}, dialog: "Send a message"},
		{action: "purge", at: "#/q/purge", button: [2]string{".titlebar button", "Purge"}, dialog: "Purge purge", fill: [][2]string{{"To confirm", "purge"}}},
		{action: "delete-queue", at: "#/q/gone", button: [2]string{".titlebar button", "Delete"}, dialog: "Delete gone", fill: [][2]string{{"To confirm", "gone"}}},
		{action: "pause", at: "#/q/pause", button: [2]string{"button", "Pause delivery"}},
		{action: "resume", at: "#/q/resume", button: [2]string{"button", "Resume delivery"}},
		{action: "settings", at: "#/q/send/settings", button: [2]string{"button", "Change"}, dialog: "Settings of send", fill: [][2]string{{"VisibilityTimeout", "77"}, {"MessageRetentionPeriod", "86400"}}},
		{action: "tag", at: "#/q/send/settings", button: [2]string{"button", "Set a tag"}, dialog: "Set a tag", fill: [][2]string{{"Key", "the team"}, {"Value", "a=b"}}},
		{action: "untag", at: "#/q/resume/settings", button: [2]string{`button[aria-label="Remove the tag stage"]`, ""}},

		ofKind(triage("redrive", "a kind", "back-dlq", "Send back", "Send back", [2]string{"Messages per second", "100"}, [2]string{"Note", "it's back"})),
		triage("redrive", "all", "back-dlq", "Send all back", "Send back", [2]string{"Messages per second", ""}),
		triage("move", "", "move-dlq", "Move all to", "Move", [2]string{"Queue", "send"}),
		ofKind(triage("park", "", "park-dlq", "Park", "Park", [2]string{"Parking queue", "lot"})),
		triage("create-missing", "", "park-dlq", "Park all", "Park"),
		ofKind(triage("delete", "a kind", "delete-dlq", "Delete", "Delete", [2]string{"To confirm", "2"})),
		triage("delete", "all", "delete-dlq", "Delete all", "Delete", [2]string{"To confirm", "1"}),
		{action: "delete", about: "what a search found", at: "#/q/found-dlq/messages?text=order&attribute=trial%3D2&receives=1", before: func(b *tab) { b.click(".search button", "Search the whole queue") },
			button: [2]string{".search .triage button", "Delete these"}, dialog: "Delete", fill: [][2]string{{"To confirm", "1"}}},
		{action: "redrive", about: "one message", at: "#/m/" + w.edit[2], button: [2]string{".message button", "Send it back"}, dialog: "Send back"},
		ofKind(triage("note", "", "loud-dlq", "Note", "Note on", [2]string{"Note", "it's the bank: $(id)"})),
		removal,
		{action: "edit", at: "#/m/" + w.edit[0], button: [2]string{"button", "Edit and send"}, dialog: "Edit and send", fill: [][2]string{{"Body", hostile}}},
		{action: "edit", about: "attributes and queue", at: "#/m/" + w.edit[1], button: [2]string{"button", "Edit and send"}, dialog: "Edit and send", fill: [][2]string{{"Queue", "send"}},
			then: func(b *tab) {
				b.until("its attributes are there", `document.querySelector("dialog[open] button[aria-label^='Remove attribute']")`)
				b.click("dialog[open] button[aria-label='Remove attribute 1']", "")
				attribute("tenant", hostile)(b)
			}},

		{action: "task-pause", at: "#/tasks/" + w.task["slow"], prepare: func(s *server) { s.ask("/v1/tasks/"+w.task["slow"]+"/resume", object{}, nil) }, button: [2]string{"main button", "Pause"}},
		{action: "task-resume", at: "#/tasks/" + w.task["again"], button: [2]string{"main button", "Resume"}},
		{action: "task-rate", at: "#/tasks/" + w.task["rate"], button: [2]string{"button", "Change the rate"}, dialog: "Rate of", fill: [][2]string{{"Messages per second", "33"}}},
		{action: "task-rate", about: "no limit", at: "#/tasks/" + w.task["rate"], button: [2]string{"button", "Change the rate"}, dialog: "Rate of", fill: [][2]string{{"Messages per second", ""}}},
		{action: "task-cancel", at: "#/tasks/" + w.task["cancel"], button: [2]string{"button", "Cancel the task"}},

		{action: "settle", at: "#/claims/settle%201", button: [2]string{"button", "Settle"}, dialog: "Settle", fill: [][2]string{{"Reason", "it's with the bank"}, {"Result", hostile}}},
		{action: "settle", about: "what is done", at: "#/claims/done", button: [2]string{"button", "Settle"}, dialog: "Settle", fill: [][2]string{{"Reason", "wrong"}, {"Result", "2"}}, then: confirm},
		{action: "release", at: "#/claims/held", button: [2]string{"button", "Release"}, dialog: "Release", fill: [][2]string{{"Reason", "its host is off"}}, then: confirm},
		{action: "release", about: "of another ledger", at: "#/claims/failed?ledger=jobs%2F", button: [2]string{"button", "Release"}, dialog: "Release", fill: [][2]string{{"Reason", "again"}}},
		{action: "settle", about: "in another store", at: "#/claims/order-46?store=shop", button: [2]string{"button", "Settle"}, dialog: "Settle", fill: [][2]string{{"Reason", "it's with the bank"}, {"Result", hostile}}},
		{action: "release", about: "in another store", at: "#/claims/order-44?store=shop", button: [2]string{"button", "Release"}, dialog: "Release", fill: [][2]string{{"Reason", "again"}}},

		// The first step, because later ones find the rate of the policy in the records.
		{action: "step", at: "#/redrivers/step-dlq", button: [2]string{".alarmbox .bar button", "Take a step"}, dialog: "Take a step"},
		{action: "plan", at: "#/redrivers/calm-dlq", button: [2]string{".alarmbox .bar button", "Plan the next step"}, dialog: "Plan the next step"},
		{action: "redriver-pause", at: "#/redrivers/calm-dlq", button: [2]string{".alarmbox .bar button", "Pause"}},
		{action: "redriver-resume", at: "#/redrivers/step-dlq", prepare: func(s *server) { s.ask("/v1/redrivers/step-dlq/pause", object{"reason": "the bank is down"}, nil) }, button: [2]string{".alarmbox .bar button", "Resume"}},

		{action: "row-release", at: "#/outbox/shop", prepare: asReported, button: [2]string{`button[aria-label="Release ` + asideID(1) + `"]`, ""}},
		{action: "row-release", about: "all", at: "#/outbox/shop", prepare: asReported, button: [2]string{"main p.acts button", "Release all"}, dialog: "Release 2 rows"},
		{action: "row-discard", at: "#/outbox/shop", prepare: asReported, button: [2]string{`button[aria-label="Discard ` + asideID(1) + `"]`, ""}, dialog: "Discard 1 row", fill: [][2]string{{"To confirm", "1"}}},
		{action: "row-discard", about: "all", at: "#/outbox/shop", prepare: asReported, button: [2]string{"main p.acts button", "Discard all"}, dialog: "Discard 2 rows", fill: [][2]string{{"To confirm", "2"}}},

		{action: "silence", at: "#/alarms", prepare: raised("loud-dlq"), button: [2]string{`button[aria-label="Silence… loud-dlq/dead-letters"]`, ""}, dialog: "Silence", fill: [][2]string{{"For", "90m"}, {"Reason", "it's known"}}},
		{action: "end-silence", at: "#/alarms", prepare: func(s *server) { s.ask("/v1/alarms/silence", object{"match": "mails/*", "for": "3h"}, nil) }, button: [2]string{`button[aria-label="End the silence of mails/*"]`, ""}},
		{action: "acknowledge", at: "#/alarms", prepare: raised("loud-dlq"), before: pageIsText, button: [2]string{`button[aria-label="Acknowledge loud-dlq/dead-letters"]`, ""}},
		{action: "acknowledge-note", at: "#/alarms", prepare: raised("loud-dlq"), button: [2]string{`button[aria-label$="ote… loud-dlq/dead-letters"]`, ""}, dialog: "Acknowledge loud-dlq/dead-letters", fill: [][2]string{{"Note", "it's the bank: $(id)"}}},
		{action: "end-acknowledgement", at: "#/alarms", prepare: func(s *server) {
			raised("edit-dlq")(s)
			s.ask("/v1/alarms/acknowledge", object{"alarm": "edit-dlq/dead-letters"}, nil)
		}, button: [2]string{`button[aria-label="End the acknowledgement of edit-dlq/dead-letters"]`, ""}},
	}
}

// first are the buttons that only a server without queues has.
func (w *twins) first() []pressed {
	empty := func(s *server) {
		for _, queue := range s.queues() {
			s.ask("DeleteQueue", object{"QueueUrl": s.url(queue)}, nil)
		}
	}
	p := pressed{action: "send-first", at: "#/", prepare: empty, button: [2]string{"main button", "Send a message"}, dialog: "Send a message"}
	named, fifo := p, p
	named.about, named.fill = "with a name", [][2]string{{"Queue", "jobs"}, {"Body", hostile}}
	fifo.about, fifo.fill = "FIFO", [][2]string{{"Queue", "late.fifo"}, {"Message group", "it's-$(id)"}}
	example := pressed{action: "example", at: "#/", prepare: empty, button: [2]string{"main button", "Break a worker"}}
	return []pressed{p, named, fifo, example}
}

// queues are the names of all queues.
func (s *server) queues() (names []string) {
	s.t.Helper()
	var list struct{ Queues []struct{ Name string } }
	s.ask("/v1/queues?prefix=", nil, &list)
	for _, q := range list.Queues {
		names = append(names, q.Name)
	}
	return names
}

// pageIsText checks that the page of an alarm is shown as text if it is not a web address.
func pageIsText(b *tab) {
	b.t.Helper()
	b.sees("What to do: docs/alarms/dead-letters.md")
	if eval[bool](b, `!!document.querySelector('.alarmbox a[target]')`) {
		b.t.Error("the place of a page in the sources is a link")
	}
}

// raised waits until a queue of dead letters has its alarm.
func raised(queue string) func(*server) {
	return func(s *server) {
		s.t.Helper()
		for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			var list struct {
				Alarms []struct{ Name, State string }
			}
			s.ask("/v1/alarms?state=ALARM", nil, &list)
			for _, a := range list.Alarms {
				if a.Name == queue+"/dead-letters" {
					return
				}
			}
			if time.Now().After(end) {
				s.t.Fatalf("%s has no alarm: %+v", queue, list)
			}
		}
	}
}

// press carries out an action in the browser, and returns the command that the page shows for it.
// Several are joined.
func (p *pressed) press(b *tab) (command string) {
	b.t.Helper()
	shown := func(in string) string {
		code := fmt.Sprintf(`[...document.querySelector('%s [data-same="%s"]')?.parentElement.querySelectorAll("code") ?? []].map((e) => e.textContent).join(" && ")`, in, p.action)
		b.until("the page shows the command of "+p.action, code)
		return eval[string](b, code)
	}
	b.goTo("#/nowhere") // so that no button of the page before is pressed
	b.until("nothing is said", `document.querySelector("h1")?.innerText === "There is no such page" && !document.querySelector(".toast button[aria-label=Dismiss]")?.click() && !document.querySelector(".toast")`)
	b.goTo(p.at)
	if p.before != nil {
		p.before(b)
	}
	if p.dialog == "" {
		b.click(p.button[0], p.button[1])
		return shown(".toast")
	}
	b.asks(p.button[0], p.button[1], p.dialog)
	if p.action == "create-missing" {
		b.sees("There is no queue")
		command = shown("dialog[open]")
		b.click("dialog[open] button", "Create it")
		b.until("it is there", `!document.querySelector("dialog[open]").innerText.includes("There is no queue")`)
		b.press("\x1b")
		b.closes()
		return command
	}
	for _, f := range p.fill {
		b.fill(f[0], f[1])
	}
	if p.then != nil {
		p.then(b)
	}
	b.until("it can be sent", `document.querySelector("dialog[open] button[type=submit]")?.disabled === false`)
	command = shown("dialog[open]")
	b.submit()
	b.closes()
	return command
}

// Every button has its command, and the command does the same: pressed on one server and typed on
// its twin, they leave both with the same answers. [CONSOLE-15]
func TestCommandsDoTheSame(t *testing.T) {
	t.Parallel()
	w := newTwins(t, (*twins).furnish)
	w.compare(t, w.all())
}

// So do the commands of what a server without queues has. [CONSOLE-15]
func TestFirstCommandsDoTheSame(t *testing.T) {
	t.Parallel()
	w := newTwins(t, func(*twins, *server) {})
	w.compare(t, w.first())
}

func (w *twins) compare(t *testing.T, all []pressed) {
	t.Helper()
	b := w.buttons.open(t, "")
	before := w.state(w.buttons)
	for _, p := range all {
		name := strings.TrimSpace(p.action + " " + p.about)
		if p.prepare != nil {
			p.prepare(w.buttons)
			p.prepare(w.typed)
			before = w.state(w.buttons)
		}
		logged := w.logged()
		command := p.press(b)
		var pressed map[string]any
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if pressed = w.state(w.buttons); len(w.differ("", before, pressed)) > 0 && !working(pressed) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: the button does nothing, or does not end", name)
			}
		}
		if w.logged() == logged {
			t.Errorf("%s: the button has no entry in the action log", name)
		}
		w.run(t, command)
		var different []string
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if different = w.differ("", pressed, w.state(w.typed)); len(different) == 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %s\ndoes not do the same as the button:\n%s", name, command, strings.Join(different, "\n"))
			}
			pressed = w.state(w.buttons)
		}
		before = pressed
		t.Logf("%s: %s", name, command)
	}
}

// The actions are those of the sources, so that a new button fails without its case.
func TestEveryActionHasItsCase(t *testing.T) {
	cases := make(map[string]bool)
	w := &twins{edit: make([]string, 3)}
	for _, p := range slices.Concat(w.all(), w.first()) {
		cases[p.action] = true
	}
	for _, action := range actions(t) {
		if !cases[action] {
			t.Errorf("the action %s has no case in TestCommandsDoTheSame: add it to all", action)
		}
		delete(cases, action)
	}
	for action := range cases {
		t.Errorf("the console has no action %s", action)
	}
}

// Every command in the panel of a screen exists, has the flags shown, and accepts their values.
func TestCommandsOfScreens(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string) // the page, by the command
	look := func(s *server, pages ...[2]string) {
		b := s.open(t, "")
		for _, p := range pages {
			b.goTo("#/nowhere") // so that what is seen is not of the page before
			b.sees("There is no such page")
			b.goTo(p[0])
			b.sees(p[1])
			if strings.HasSuffix(p[0], "-dlq/dead") {
				b.click(".kindhead", "CardDeclined")
			}
			b.press("c")
			b.until("the panel is open", `document.querySelector("dialog[open]")`)
			for _, command := range eval[[]string](b, `[...document.querySelectorAll(".commands code")].map((e) => e.textContent)`) {
				seen[command] = p[0]
			}
			b.press("\x1b")
			b.closes()
		}
	}
	shop := newShop(t)
	look(shop.server, [][2]string{
		{"#/", "invoices.fifo"}, {"#/q/orders", "After 3 receives"}, {"#/q/orders-dlq", "Dead letters come here"},
		{"#/q/orders/messages?state=in_flight", "loaded"}, {"#/q/invoices.fifo/groups", "customer-3"},
		{"#/q/orders-dlq/dead", "CardDeclined"}, {"#/q/orders/history?outcome=deleted&text=4", "messages kept"},
		{"#/q/mails/history", "keeps no history"}, {"#/q/orders/settings", "payments"}, {"#/dead", "orders-dlq"},
		{"#/tasks?state=active", "No task is running"}, {"#/tasks/orders-dlq:1", "returns"}, {"#/log", "asked the warehouse"},
		{"#/m/" + shop.dead, "Latest attempts"}, {"#/m/00000000-0000-4000-8000-000000000000", "No queue has this message"},
		{"#/alarms?state=ALARM", "without data"}, {"#/health", "commits reach the disk"}, {"#/outbox", "No relay of an outbox"},
		{"#/keys", "This server has no keys"},
	}...)
	s := serve(t, nil, "--config", redriving(t))
	s.fail([]string{"card declined: code #"})
	look(s, [2]string{"#/redrivers", "1,220 redriven"})
	s = serve(t, nil)
	s.addClaims()
	look(s, [][2]string{{"#/claims?prefix=order&state=stuck", "order-46"}, {"#/claims/order-46", "unknown how far"},
		{"#/claims/order-42", "worker-7"}, {"#/trace/order-42", "Life of order-42"}}...)
	if len(seen) < 40 {
		t.Errorf("only %d commands were shown", len(seen))
	}
	bin := t.TempDir()
	if err := os.Symlink(built.Program(t), filepath.Join(bin, "tenaq")); err != nil {
		t.Fatal(err)
	}
	for _, command := range slices.Sorted(maps.Keys(seen)) {
		cmd := exec.Command("sh", "-c", command+" --help")
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s shows %s: %v\n%s", seen[command], command, err, out)
		}
	}
}

// actions are the names of all actions, from the sources of the console.
func actions(t *testing.T) (names []string) {
	t.Helper()
	web := os.DirFS("../../internal/console/web")
	any, named := regexp.MustCompile(`\bsame\(`), regexp.MustCompile(`\bsame\("([a-z-]+)"`)
	// These change something without a command.
	elsewhere := map[string][]string{`\bfetch\(`: {"api.ts"}, `\bmethod:`: {"api.ts"}, `\bsender\b`: {"act.tsx", "api.ts"},
		`\battempt\(null\b`: {"act.tsx"}, `\bcarryOut\b`: {"act.tsx", "change.tsx"}}
	err := fs.WalkDir(web, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == "vendor":
			return fs.SkipDir
		case !strings.HasSuffix(path, ".ts") && !strings.HasSuffix(path, ".tsx"):
			return nil
		}
		text, err := fs.ReadFile(web, path)
		if err != nil {
			return err
		}
		found := named.FindAllSubmatch(text, -1)
		if len(found) != len(any.FindAll(text, -1)) {
			t.Errorf("%s: an action has no name of its own in the source", path)
		}
		for _, f := range found {
			names = append(names, string(f[1]))
		}
		for pattern, files := range elsewhere {
			if !slices.Contains(files, path) && regexp.MustCompile(pattern).Match(text) {
				t.Errorf("%s has %s: change something with attempt, or in a dialog", path, pattern)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
