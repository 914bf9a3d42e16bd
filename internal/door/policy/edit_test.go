package policy

import (
	"fmt"
	"strings"
	"testing"
)

// A permission is a statement, and goes with its label. [AUTH-25, AUTH-26, AUTH-31]
func TestAddRemove(t *testing.T) {
	first, err := Add("", queueARN, "one", []string{"222222222222"}, []string{"ReceiveMessage"})
	want := `{"Version":"2008-10-17","Id":"` + queueARN + `/SQSDefaultPolicy","Statement":[{"Sid":"one","Effect":"Allow",` +
		`"Principal":{"AWS":"arn:aws:iam::222222222222:root"},"Action":"SQS:ReceiveMessage","Resource":"` + queueARN + `"}]}`
	if err != nil || first != want {
		t.Fatalf("got %s, %v\nwant %s", first, err, want)
	}
	second, err := Add(first, queueARN, "two", []string{"222222222222", "333333333333"}, []string{"SendMessage", "*"})
	if err != nil {
		t.Fatal(err)
	}
	if part := `{"AWS":["arn:aws:iam::222222222222:root","arn:aws:iam::333333333333:root"]},"Action":["SQS:SendMessage","SQS:*"]`; !strings.Contains(second, part) {
		t.Errorf("got %s, want %s in it", second, part)
	}
	p, err := Parse(second)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Decide(ask("sqs:SendMessage")); got != Allow {
		t.Errorf("got %v, want Allow", got)
	}
	if _, err := Add(second, queueARN, "one", []string{"222222222222"}, []string{"*"}); err == nil || err.Error() != "Value one for parameter Label is invalid. Reason: Already exists." {
		t.Errorf("a label twice: got %v", err)
	}
	if second, err = Remove(second, queueARN, "two"); err != nil || second != first {
		t.Errorf("got %s, %v, want the first policy again", second, err)
	}
	if none, err := Remove(second, queueARN, "one"); err != nil || none != "" {
		t.Errorf("got %q, %v, want no policy", none, err)
	}
	for _, text := range []string{"", first} {
		if _, err := Remove(text, queueARN, "other"); err == nil || err.Error() != "Value other for parameter Label is invalid. Reason: can't find label." {
			t.Errorf("an unknown label: got %v", err)
		}
	}
}

// A statement that was written by hand stays as it is.
func TestAddKeeps(t *testing.T) {
	const mine = `{"Sid":"<me> & you","Effect":"Deny","Principal":"*","Action":"sqs:*","Condition":{"Bool":{"aws:SecureTransport":"false"}}}`
	got, err := Add(`{"Version":"2012-10-17","Statement":`+mine+`}`, queueARN, "x", []string{"222222222222"}, []string{"*"})
	if err != nil || !strings.HasPrefix(got, `{"Version":"2012-10-17","Statement":[`+mine+`,{"Sid":"x"`) {
		t.Errorf("got %s, %v", got, err)
	}
}

// A policy that Add makes can be parsed, whichever statement is added to whichever policy.
func TestAddStaysReadable(t *testing.T) {
	accounts := make([]string, principalsMax+1)
	for i := range accounts {
		accounts[i] = fmt.Sprintf("%012d", i)
	}
	if _, err := Add("", queueARN, "x", accounts, []string{"*"}); err == nil || err.Error() != "51 Principals were found, maximum allowed is 50." {
		t.Errorf("51 accounts: got %v", err)
	}
	text := ""
	for i := 0; ; i++ {
		more, err := Add(text, queueARN, fmt.Sprint("l", i), accounts[:principalsMax], []string{"*"})
		if r, ok := IsRefusal(err); ok && r.Reason == OverLimit && r.Message == "Submitted policy is over max allowed size." {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(more); err != nil {
			t.Fatalf("%d bytes: %v", len(more), err)
		}
		text = more
	}
	if text == "" {
		t.Error("got not even one statement")
	}
}

// [QUEUE-11]
func TestEqual(t *testing.T) {
	const a = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*"},1]}`
	for b, want := range map[string]bool{
		a: true,
		` { "Statement" : [ {"Principal":"*", "Effect":"\u0041llow"}, 1 ], "Version":"2012-10-17" } `: true,
		`{"Version":"2012-10-17","Statement":[1,{"Effect":"Allow","Principal":"*"}]}`:                 false,
		`{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*"},1]}`:                  false,
		``: false,
	} {
		if got := Equal(a, b); got != want {
			t.Errorf("%s: got %v, want %v", b, got, want)
		}
	}
	if !Equal("", "") || Equal("", "{}") {
		t.Error("no policy equals none, and no other")
	}
}

// [AUTH-27, AUTH-28, AUTH-29]
func TestAddRefuses(t *testing.T) {
	full := ""
	for i := range StatementsMax {
		var err error
		if full, err = Add(full, queueARN, fmt.Sprint("l", i), []string{"222222222222"}, []string{"*"}); err != nil {
			t.Fatal(err)
		}
	}
	some, account := []string{"SendMessage"}, []string{"222222222222"}
	for _, tt := range []struct {
		text, label       string
		accounts, actions []string
		reason            Reason
		want              string
	}{
		{"", "", account, some, Invalid, "Value  for parameter Label is invalid. Reason: Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length."},
		{"", "a b", account, some, Invalid, "Value a b for parameter Label is invalid. Reason: Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length."},
		{"", "x", account, nil, Missing, "The request must contain the parameter Actions."},
		{"", "x", nil, some, Invalid, "Value [] for parameter PrincipalId is invalid. Reason: Unable to verify."},
		{"", "x", []string{"2"}, some, Invalid, "Value [2] for parameter PrincipalId is invalid. Reason: Unable to verify."},
		{"", "x", account, []string{"SendMessageBatch"}, Invalid, "Value SQS:SendMessageBatch for parameter ActionName is invalid. Reason: Please refer to the appropriate WSDL for a list of valid actions."},
		{"", "x", account, []string{"CreateQueue"}, Invalid, "Value SQS:CreateQueue for parameter ActionName is invalid. Reason: Only the queue owner is allowed to invoke this action."},
		{"", "x", account, []string{"*", "*", "*", "*", "*", "*", "*", "*"}, OverLimit, "8 Actions were found, maximum allowed is 7."},
		{full, "x", account, some, OverLimit, "21 Statements were found, maximum allowed is 20."},
	} {
		_, err := Add(tt.text, queueARN, tt.label, tt.accounts, tt.actions)
		if r, ok := IsRefusal(err); !ok || r.Reason != tt.reason || r.Message != tt.want {
			t.Errorf("%v %v %v: got %v, want %s", tt.label, tt.accounts, tt.actions, err, tt.want)
		}
	}
}

// [AUTH-20]
func TestOwnerOnly(t *testing.T) {
	for action, want := range map[string]bool{"sqs:DeleteQueue": true, "SQS:deletequeue": true, "sqs:SendMessage": false, "sqs:PurgeQueue": false} {
		if got := OwnerOnly(action); got != want {
			t.Errorf("%s: got %v, want %v", action, got, want)
		}
	}
}
