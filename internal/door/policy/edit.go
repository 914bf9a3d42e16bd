package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Reason says why a permission was refused, so that a caller can give the error that SQS has for
// it.
type Reason int

// The reasons.
const (
	Invalid Reason = iota + 1
	Missing
	OverLimit
)

// A Refusal is a permission that was not added or removed, in the words of SQS.
type Refusal struct {
	Reason  Reason
	Message string
}

func (r *Refusal) Error() string { return r.Message }

func refuse(reason Reason, format string, args ...any) error {
	return &Refusal{reason, fmt.Sprintf(format, args...)}
}

// granted are the actions that AddPermission takes; kept are those that only the owner of a queue
// may do. [AUTH-20, AUTH-27]
var (
	granted = []string{
		"*", // before the others, and no action itself
		"ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "GetQueueUrl",
		"ListDeadLetterSourceQueues",
		"PurgeQueue", "ReceiveMessage", "SendMessage",
	}
	kept = []string{
		"AddPermission", "CancelMessageMoveTask", "CreateQueue", "DeleteQueue",
		"ListMessageMoveTasks", "ListQueues", "ListQueueTags",
		"RemovePermission", "SetQueueAttributes", "StartMessageMoveTask", "TagQueue", "UntagQueue",
	}
)

// Actions are all that a policy can name, such as SendMessage; a batch is its single action.
// [AUTH-18]
func Actions() []string { return slices.Concat(granted[1:], kept) }

// OwnerOnly reports whether no policy of a queue can let another account do an action, such as
// sqs:DeleteQueue. [AUTH-20]
func OwnerOnly(action string) bool {
	_, name, _ := strings.Cut(action, ":")
	return slices.ContainsFunc(kept, func(k string) bool { return strings.EqualFold(k, name) })
}

var labelPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// A document is a policy as a text, of which only what has to be is taken apart.
type document struct {
	Version    string            `json:"Version"`
	ID         string            `json:"Id,omitempty"`
	Statements []json.RawMessage `json:"Statement"`
}

// read takes a policy apart that Parse took; an empty text is a new one for a queue.
func read(text, queueARN string) (*document, error) {
	if text == "" {
		return &document{Version: "2008-10-17", ID: queueARN + "/SQSDefaultPolicy"}, nil
	}
	top, err := object([]byte(text), "the policy", "version", "id", "statement")
	if err != nil {
		return nil, err
	}
	d := &document{Version: "2008-10-17"}
	_ = json.Unmarshal(top["version"], &d.Version)
	_ = json.Unmarshal(top["id"], &d.ID)
	d.Statements, err = items(top["statement"])
	return d, err
}

func (d *document) labels() (labels []string) {
	for _, raw := range d.Statements {
		var s struct{ Sid string }
		_ = json.Unmarshal(raw, &s)
		labels = append(labels, s.Sid)
	}
	return labels
}

// text writes the document. What others have written in it is not changed, but for blanks.
func (d *document) text() (string, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(d)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// Equal reports whether two policies are the same JSON, whatever the order of members and the
// blanks in them. [QUEUE-11]
func Equal(a, b string) bool {
	if a == b {
		return true
	}
	x, okX := canonical(a)
	y, okY := canonical(b)
	return okX && okY && x == y
}

// canonical returns a JSON text as encoding/json writes it, with the members of objects sorted.
func canonical(text string) (string, bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return "", false
	}
	b, err := json.Marshal(v)
	return string(b), err == nil
}

// Add returns the policy of a queue with a statement more, which lets accounts do actions. Its
// errors are Refusals, but for a policy that cannot be read. [AUTH-25 to AUTH-29]
func Add(text, queueARN, label string, accounts, actions []string) (string, error) {
	if err := checkPermission(label, accounts, actions); err != nil {
		return "", err
	}
	d, err := read(text, queueARN)
	if err != nil {
		return "", err
	}
	if slices.Contains(d.labels(), label) {
		return "", refuse(Invalid,
			"Value %s for parameter Label is invalid. Reason: Already exists.", label)
	}
	if n := len(d.Statements) + 1; n > StatementsMax {
		return "", refuse(OverLimit, "%d Statements were found, maximum allowed is %d.", n,
			StatementsMax)
	}
	principals, names := make([]string, len(accounts)), make([]string, len(actions))
	for i, a := range accounts {
		principals[i] = "arn:aws:iam::" + a + ":root"
	}
	for i, a := range actions {
		names[i] = "SQS:" + a
	}
	s, err := json.Marshal(struct {
		Sid       string
		Effect    string
		Principal map[string]any
		Action    any
		Resource  string
	}{label, "Allow", map[string]any{"AWS": alone(principals)}, alone(names), queueARN})
	if err != nil {
		return "", err
	}
	d.Statements = append(d.Statements, s)
	added, err := d.text()
	if err == nil && len(added) > BytesMax {
		return "", refuse(OverLimit, sizeExcess)
	}
	return added, err
}

func checkPermission(label string, accounts, actions []string) error {
	switch {
	case !labelPattern.MatchString(label):
		return refuse(Invalid, "Value %s for parameter Label is invalid. Reason: Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length.", label)
	case len(actions) == 0:
		return refuse(Missing, "The request must contain the parameter Actions.")
	case len(actions) > ActionsMax:
		return refuse(OverLimit, "%d Actions were found, maximum allowed is %d.", len(actions),
			ActionsMax)
	case len(accounts) > principalsMax:
		return refuse(OverLimit, "%d Principals were found, maximum allowed is %d.", len(accounts),
			principalsMax)
	}
	for _, a := range actions {
		switch {
		case slices.Contains(kept, a):
			return refuse(Invalid, "Value SQS:%s for parameter ActionName is invalid. Reason: Only the queue owner is allowed to invoke this action.", a)
		case !slices.Contains(granted, a):
			return refuse(Invalid, "Value SQS:%s for parameter ActionName is invalid. Reason: Please refer to the appropriate WSDL for a list of valid actions.", a)
		}
	}
	unknown := func(a string) bool { return !IsAccount(a) }
	if len(accounts) == 0 || slices.ContainsFunc(accounts, unknown) {
		return refuse(Invalid, "Value [%s] for parameter PrincipalId is invalid. Reason: Unable to verify.", strings.Join(accounts, ", "))
	}
	return nil
}

// alone returns what stands for a list: its element, when it has one.
func alone(list []string) any {
	if len(list) == 1 {
		return list[0]
	}
	return list
}

// Remove returns the policy without the statements of a label, empty when none is left. Its errors
// are Refusals, but for a policy that cannot be read. [AUTH-30, AUTH-31]
func Remove(text, queueARN, label string) (string, error) {
	d, err := read(text, queueARN)
	if err != nil {
		return "", err
	}
	labels := d.labels()
	if label == "" || !slices.Contains(labels, label) {
		return "", refuse(Invalid,
			"Value %s for parameter Label is invalid. Reason: can't find label.", label)
	}
	var left []json.RawMessage
	for i, s := range d.Statements {
		if labels[i] != label {
			left = append(left, s)
		}
	}
	if d.Statements = left; len(left) == 0 {
		return "", nil
	}
	return d.text()
}

// IsRefusal returns the Refusal in an error.
func IsRefusal(err error) (r *Refusal, ok bool) { return r, errors.As(err, &r) }
