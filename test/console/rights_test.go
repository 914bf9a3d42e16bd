package console_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The rights that a key needs for the button of each action.
var (
	taking  = []string{"tenaq:ManageTasks", "tenaq:PeekMessages", "sqs:ReceiveMessage", "sqs:DeleteMessage"}
	moving  = append(slices.Clone(taking), "sqs:SendMessage")
	editing = []string{"tenaq:ReplaceMessage", "tenaq:PeekMessages", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:SendMessage"}
	rights  = map[string][]string{
		"create": {"sqs:CreateQueue"}, "send-first": {"sqs:CreateQueue", "sqs:SendMessage"}, "example": append(slices.Clone(taking[1:]), "sqs:CreateQueue", "sqs:SendMessage", "tenaq:Nack"), "send": {"sqs:SendMessage"}, "purge": {"sqs:PurgeQueue"}, "delete-queue": {"sqs:DeleteQueue"},
		"pause": {"sqs:TagQueue", "sqs:UntagQueue"}, "resume": {"sqs:TagQueue", "sqs:UntagQueue"}, "settings": {"sqs:SetQueueAttributes"},
		"tag": {"sqs:TagQueue"}, "untag": {"sqs:TagQueue", "sqs:UntagQueue"},
		"redrive": moving, "move": moving, "park": moving, "create-missing": moving, "delete": taking, "edit": editing, "note": {"tenaq:NoteReason"},
		"task-pause": {"tenaq:ManageTasks"}, "task-resume": {"tenaq:ManageTasks"}, "task-rate": {"tenaq:ManageTasks"}, "task-cancel": {"tenaq:ManageTasks"},
		"settle": {"tenaq:ManageClaims"}, "release": {"tenaq:ManageClaims"},
		"step": {"tenaq:ManageRedrivers"}, "plan": {"tenaq:ManageRedrivers"}, "redriver-pause": {"tenaq:ManageRedrivers"}, "redriver-resume": {"tenaq:ManageRedrivers"},
		"row-release": {"tenaq:ManageOutbox"}, "row-discard": {"tenaq:ManageOutbox"},
		"silence": {"tenaq:SilenceAlarms"}, "end-silence": {"tenaq:SilenceAlarms"}, "acknowledge": {"tenaq:AcknowledgeAlarm"}, "acknowledge-note": {"tenaq:AcknowledgeAlarm"}, "end-acknowledgement": {"tenaq:AcknowledgeAlarm"},
	}
)

// there reports in the browser whether the button of an action is on its page.
func (p *pressed) there() string {
	return fmt.Sprintf(`[...document.querySelectorAll(%s)].some((e) => e.innerText.includes(%s))`, quoted(p.button[0]), quoted(p.button[1]))
}

// The button of each action is absent for a key that may do everything but one thing that the
// action needs, and is there for a key that may do it too. TestFirstWithoutRights has those of a
// server without queues. That the server refuses such requests is the business of TestEveryRight in
// internal/api/v1 and TestDoRights in internal/server. [CONSOLE-14]
func TestButtonsWithoutRights(t *testing.T) {
	t.Parallel()
	if names := slices.Sorted(maps.Keys(rights)); !slices.Equal(names, actions(t)) {
		t.Fatalf("the console has the actions %v, and rights are known for %v", actions(t), names)
	}
	w := newTwins(t, (*twins).furnish)
	s := w.buttons
	first := make(map[string]pressed) // case of each action
	for _, p := range w.all() {
		if _, known := first[p.action]; known {
			continue
		}
		switch p.action {
		case "step": // which a redriver that is paused cannot take
			p.at = "#/redrivers/calm-dlq"
		case "task-cancel": // of a task that runs, and task-rate of one that is paused
			p.at = "#/tasks/" + w.task["slow"]
		}
		first[p.action] = p
		if p.prepare != nil {
			p.prepare(s)
		}
	}
	var all struct{ Allowed []string }
	s.ask("/v1", nil, &all)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	var lacking []string // rights
	for _, needs := range rights {
		lacking = append(lacking, needs...)
	}
	slices.Sort(lacking)
	lacking = slices.Compact(lacking)
	secret := func(i int) string { return fmt.Sprintf("%s-%d", opsSecret, i) }
	key := func(i int, allow []string) string {
		text, err := json.Marshal(object{"id": fmt.Sprintf("TQLACKS%03d", i), "secret": secret(i), "name": fmt.Sprintf("ops-%d", i), "allow": allow})
		return string(must(text, err))
	}
	keys := []string{opsKey(`"*"`)}
	for i, right := range lacking {
		if !slices.Contains(all.Allowed, right) {
			t.Fatalf("there is no action %s", right)
		}
		keys = append(keys, key(i, slices.DeleteFunc(slices.Clone(all.Allowed), func(a string) bool { return a == right })))
	}
	k, _ := keyed(t, strings.Join(keys, ", "), "--data-dir", s.DataDir(), "--config", filepath.Join(filepath.Dir(s.DataDir()), "tenaq.yaml"), "--alarm-minute", "1s")
	_, rows := setAside(t, 2)
	k.relays(t, rows, []string{"AWS_ACCESS_KEY_ID=" + opsID, "AWS_SECRET_ACCESS_KEY=" + opsSecret}, "--orders", "all")
	visit := func(b *tab, p pressed, allowed bool) {
		b.goTo("#/nowhere")
		b.sees("There is no such page")
		b.goTo(p.at)
		b.until("the page is there", `document.querySelector("main h1") && !document.querySelector("main h1").innerText.includes("no such page") && !document.querySelector("main .loading")`)
		if p.before != nil && allowed {
			p.before(b)
		}
	}
	b := k.open(t, "")
	b.signIn(opsID, opsSecret)
	for name, p := range first {
		visit(b, p, true)
		b.until("the button of "+name+" is there", p.there())
	}
	for i, right := range lacking {
		b := k.open(t, "")
		b.signIn(fmt.Sprintf("TQLACKS%03d", i), secret(i))
		for name, p := range first {
			if !slices.Contains(rights[name], right) {
				continue
			}
			looks := right != "tenaq:PeekMessages" // without which no kind is shown
			visit(b, p, looks)
			b.until("the session is there", `document.querySelector(".account")`)
			if eval[bool](b, p.there()) {
				t.Errorf("without %s there is the button of %s", right, name)
			}
		}
	}
}

// A server without queues offers only what the key may do. [CONSOLE-14]
func TestFirstWithoutRights(t *testing.T) {
	t.Parallel()
	const looks = `"tenaq:List*", "tenaq:Get*", "tenaq:View*"`
	for _, test := range []struct{ name, allow, arg, buttons string }{
		{"all", `"*"`, "--console=on", "Send a message, Create a queue, Break a worker (demo)"},
		{"without nack", looks + `, "sqs:*", "tenaq:PeekMessages"`, "--console=on", "Send a message, Create a queue"},
		{"create", looks + `, "sqs:CreateQueue"`, "--console=on", "Create a queue"},
		{"send", looks + `, "sqs:SendMessage"`, "--console=on", ""},
		{"read-only", `"*"`, "--console-read-only", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			k, _ := keyed(t, opsKey(test.allow), test.arg)
			b := k.open(t, "")
			b.signIn(opsID, opsSecret)
			b.sees("There is no queue yet")
			b.sees("reate one in a terminal, send a message")
			if got := eval[string](b, `[...document.querySelectorAll("main .empty button")].map((e) => e.innerText).join(", ")`); got != test.buttons {
				t.Errorf("it offers %q, want %q", got, test.buttons)
			}
		})
	}
}
