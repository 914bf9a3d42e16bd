package enginetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tenaq/internal/engine"
)

func (p *Player) create(a *args, lines []string) (string, error) {
	op := &engine.CreateQueue{}
	op.Queue, op.NameSet = a.queue()
	for _, t := range a.values("tags") {
		key, value, _ := strings.Cut(t, "=")
		op.Tags = append(op.Tags, engine.Tag{Key: a.value(key), Value: a.value(value)})
	}
	op.Attributes = p.queueAttributes(a, lines)
	return p.simple(a, op)
}

// queueAttributes takes all that is left: what begins with a capital letter is an attribute. JSON
// does not fit into an argument, so Name=line takes the next of the lines that follow the command,
// and redrive=(b, 3) is the RedrivePolicy that moves messages to b after three receives.
func (p *Player) queueAttributes(a *args, lines []string) map[string]string {
	attributes := make(map[string]string)
	if redrive := a.values("redrive"); len(redrive) == 2 {
		attributes["RedrivePolicy"] = fmt.Sprintf(`{"deadLetterTargetArn":"%s","maxReceiveCount":%s}`,
			p.arn(accountDefault, redrive[0]), redrive[1])
	} else if redrive != nil {
		a.complain("redrive needs a queue and a count")
	}
	keys, values := a.pairs()
	for i, k := range keys {
		if k == "" || k[0] < 'A' || k[0] > 'Z' {
			a.complain("unknown argument %s", k)
		}
		if values[i] == "line" && len(lines) > 0 {
			values[i], lines = lines[0], lines[1:]
		}
		attributes[k] = values[i]
	}
	if len(lines) > 0 {
		a.complain("no attribute takes the line %s", lines[0])
	}
	if len(attributes) == 0 {
		return nil
	}
	return attributes
}

// arn is the ARN of a queue.
func (p *Player) arn(account, queue string) string {
	return "arn:aws:sqs:" + p.cfg.Region + ":" + account + ":" + queue
}

func (p *Player) deleteQueue(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	return p.simple(a, &engine.DeleteQueue{Queue: q})
}

func (p *Player) listQueues(a *args, _ []string) (string, error) {
	op := &engine.ListQueues{
		Account:    a.account(),
		Prefix:     a.text("prefix").Value,
		MaxResults: a.number("max"),
		NextToken:  p.token(a.text("token").Value),
	}
	return p.page(a, op, &op.Queues, &op.Next)
}

// sources lists the queues whose dead-letter queue this one is.
func (p *Player) sources(a *args, _ []string) (string, error) {
	op := &engine.ListDeadLetterSourceQueues{MaxResults: a.number("max"),
		NextToken: p.token(a.text("token").Value)}
	op.Queue, _ = a.queue()
	return p.page(a, op, &op.Queues, &op.Next)
}

// token returns the paging token that an alias, t1, t2 and so on, stands for. Any other text is a
// token that was never handed out.
func (p *Player) token(alias string) string {
	if n, err := strconv.Atoi(strings.TrimPrefix(alias, "t")); err == nil && n >= 1 &&
		n <= len(p.tokens) {
		return p.tokens[n-1]
	}
	return alias
}

// page shows one page of a listing of queues, which op answers in queues and next.
func (p *Player) page(
	a *args, op engine.Op, queues *[]engine.QueueName, next *string,
) (string, error) {
	if refusal, err := p.simple(a, op); refusal != "" || err != nil {
		return refusal, err
	}
	var b strings.Builder
	for i, q := range *queues {
		// A thousand names are nothing to read.
		if n := len(*queues); n > 20 && i >= 2 && i < n-2 {
			if i == 2 {
				fmt.Fprintf(&b, "... %d more\n", n-4)
			}
			continue
		}
		fmt.Fprintln(&b, q.Name)
	}
	if *next != "" {
		p.tokens = append(p.tokens, *next)
		fmt.Fprintf(&b, "next=t%d\n", len(p.tokens))
	}
	return b.String(), nil
}

func (p *Player) url(a *args, _ []string) (string, error) {
	op := &engine.GetQueueURL{}
	op.Queue, op.NameSet = a.queue()
	answer, err := p.simple(a, op)
	if answer == "" && err == nil {
		answer = op.Queue.Name
	}
	return answer, err
}

func (p *Player) set(a *args, lines []string) (string, error) {
	q, _ := a.queue()
	return p.simple(a, &engine.SetQueueAttributes{Queue: q, Values: p.queueAttributes(a, lines)})
}

func (p *Player) get(a *args, _ []string) (string, error) {
	op := &engine.GetQueueAttributes{}
	op.Queue, _ = a.queue()
	op.Names, _ = a.pairs()
	refusal, err := p.do(op)
	if refusal != "" || err != nil {
		return refusal, err
	}
	var lines []string
	for name, value := range op.Attributes { // order does not matter: sorted below
		lines = append(lines, name+"="+value+"\n")
	}
	slices.Sort(lines)
	return strings.Join(lines, ""), nil
}

func (p *Player) counters(a *args, _ []string) (string, error) {
	op := &engine.GetQueueAttributes{Names: []string{"All"}}
	op.Queue, _ = a.queue()
	if refusal, err := p.simple(a, op); refusal != "" || err != nil {
		return refusal, err
	}
	return fmt.Sprintf("visible=%s in-flight=%s delayed=%s",
		op.Attributes["ApproximateNumberOfMessages"],
		op.Attributes["ApproximateNumberOfMessagesNotVisible"],
		op.Attributes["ApproximateNumberOfMessagesDelayed"]), nil
}

func (p *Player) tag(a *args, _ []string) (string, error) {
	op := &engine.TagQueue{}
	op.Queue, _ = a.queue()
	keys, values := a.pairs()
	for i := range keys {
		op.Tags = append(op.Tags, engine.Tag{Key: keys[i], Value: values[i]})
	}
	return p.simple(a, op)
}

func (p *Player) createMany(a *args, _ []string) (string, error) {
	n := a.number("n").Value
	if err := a.done(); err != nil {
		return "", err
	}
	for i := range n {
		name := engine.QueueName{Account: accountDefault, Name: fmt.Sprintf("q%04d", i+1)}
		refusal, err := p.do(&engine.CreateQueue{Queue: name, NameSet: true})
		if refusal != "" || err != nil {
			return refusal, err
		}
	}
	return "", nil
}

func (p *Player) tagMany(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	var tags []engine.Tag
	for i := range a.number("n").Value {
		tags = append(tags, engine.Tag{Key: fmt.Sprintf("tag%02d", i+1), Value: "x"})
	}
	if a.flag("create") {
		return p.simple(a, &engine.CreateQueue{Queue: q, NameSet: true, Tags: tags})
	}
	return p.simple(a, &engine.TagQueue{Queue: q, Tags: tags})
}

func (p *Player) untag(a *args, _ []string) (string, error) {
	op := &engine.UntagQueue{}
	op.Queue, _ = a.queue()
	op.Keys, _ = a.pairs()
	return p.simple(a, op)
}

func (p *Player) tags(a *args, _ []string) (string, error) {
	op := &engine.ListQueueTags{}
	op.Queue, _ = a.queue()
	if refusal, err := p.simple(a, op); refusal != "" || err != nil {
		return refusal, err
	}
	var b strings.Builder
	for _, t := range op.Tags {
		fmt.Fprintf(&b, "%s=%s\n", printable(t.Key), printable(t.Value))
	}
	return b.String(), nil
}

func (p *Player) purge(a *args, _ []string) (string, error) {
	q, _ := a.queue()
	return p.simple(a, &engine.PurgeQueue{Queue: q})
}

// permit adds a permission to the policy of a queue, and forbid takes one out.
func (p *Player) permit(a *args, _ []string) (string, error) {
	op := &engine.AddPermission{Label: a.text("label"), Accounts: a.values("accounts"),
		Actions: a.values("actions")}
	op.Queue, _ = a.queue()
	return p.simple(a, op)
}

func (p *Player) forbid(a *args, _ []string) (string, error) {
	op := &engine.RemovePermission{Label: a.text("label")}
	op.Queue, _ = a.queue()
	return p.simple(a, op)
}
