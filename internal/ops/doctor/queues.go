package doctor

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"golang.org/x/sync/errgroup"

	"tenaq/internal/cli"
	"tenaq/internal/work/sqsqueue"
)

// An Examined queue is what the checks of a queue know of it.
type Examined struct {
	cli.QueueRef
	Attributes map[string]string

	kind        endpointKind
	target      string    // ARN of its dead-letter queue; "" for none
	maxReceives int       // after which a message goes there
	Dead        *Examined // the dead-letter queue; nil if there is none, or it cannot be read
	denied      error     // why it cannot be read
	IsDead      bool      // dead letters of others come here, as far as is known
	age         *time.Duration
	times       handlingTimes
	tags        map[string]string // of a queue of a tenaq server; nil if they cannot be read
	untold      error             // why they cannot be read
	held        int               // groups that dead letters hold, at most cli.HeldGroupsMax

	Refused error // why its attributes cannot be read
}

func newExamined(q cli.QueueRef, attributes map[string]string) *Examined {
	policy, _ := sqsqueue.PolicyOf(attributes) // SQS accepts only policies that can be read
	return &Examined{QueueRef: q, Attributes: attributes, target: policy.Target,
		maxReceives: policy.Receives}
}

func (q *Examined) arn() string { return q.Attributes["QueueArn"] }

func (q *Examined) isFIFO() bool { return q.Attributes["FifoQueue"] == "true" }

// seconds reads an attribute; false if the server does not report it.
func (q *Examined) seconds(name string) (time.Duration, bool) {
	n, err := strconv.ParseInt(q.Attributes[name], 10, 64)
	return time.Duration(n) * time.Second, err == nil
}

const readsAtOnce = 8

func (d *Doctor) examineQueues(ctx context.Context, names []string) error {
	subject := "endpoint " + d.Endpoint.String()
	refs, more, err := QueueRefs(ctx, d.client, names, "", d.limit)
	_, refused := errors.AsType[smithy.APIError](err)
	switch {
	case len(names) == 0 && refused:
		d.find(subject, "queues", unchecked("name the queues", "%v", err))
		return nil
	case err != nil:
		return err
	case more:
		d.find(subject, "queues",
			unchecked("raise --limit, or name the queues that matter",
				"only the first %d were examined", d.limit))
	}
	queues, err := Examine(ctx, d.client, refs)
	if err != nil {
		return err
	}
	d.addAges(ctx, subject, queues, len(names) > 0)
	d.addTimes(ctx, subject, queues)
	if d.kind == KindTenaq {
		addTags(ctx, d.client, queues)
		d.addHeld(ctx, queues)
	}
	for _, q := range queues {
		q.kind = d.kind
		if len(names) > 0 && q.target == "" && !q.IsDead {
			q.IsDead = HasSources(ctx, d.client, q.URL)
		}
	}
	for i, q := range queues {
		if q.Refused != nil {
			d.find("queue "+q.Name, "attributes",
				unchecked("allow sqs:GetQueueAttributes on it", "%v", q.Refused))
			continue
		}
		if i == 0 && d.kind != kindAmazon {
			d.find(subject, "region",
				checkRegionOf(regionOfARN(q.arn()), d.Region, "the ARNs of queues"))
		}
		for _, c := range queueChecks {
			d.find("queue "+q.Name, c.name, c.check(q))
		}
		for _, f := range checkExtensions(q) {
			d.find("queue "+q.Name, "extensions", f)
		}
	}
	return nil
}

// QueueRefs finds the queues with these names, or up to limit queues whose names have the prefix.
func QueueRefs(
	ctx context.Context, c *cli.Client, names []string, prefix string, limit int,
) (refs []cli.QueueRef, more bool, err error) {
	if len(names) == 0 {
		return c.Queues(ctx, prefix, limit)
	}
	for _, name := range names {
		url, err := c.QueueURL(ctx, name)
		if err != nil {
			return nil, false, err
		}
		refs = append(refs, cli.QueueRef{Name: cli.QueueNameOf(url), URL: url})
	}
	return refs, false, nil
}

// Examine reads the attributes of queues and of their dead-letter queues. A queue that is deleted
// meanwhile is omitted. A queue that may not be read has only Refused.
func Examine(ctx context.Context, c *cli.Client, refs []cli.QueueRef) ([]*Examined, error) {
	read := make([]*Examined, len(refs))
	group, inGroup := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for i, ref := range refs {
		group.Go(func() error {
			attributes, err := c.AllAttributes(inGroup, ref.URL)
			answer, answered := errors.AsType[smithy.APIError](err)
			switch {
			case isNotFound(err):
			case answered && strings.HasPrefix(cli.ErrorKind(answer), "AccessDenied"):
				read[i] = &Examined{QueueRef: ref, Refused: err}
			case err != nil:
				return err
			default:
				read[i] = newExamined(ref, attributes)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	queues := slices.DeleteFunc(read, func(q *Examined) bool { return q == nil })
	known := map[string]*Examined{}
	for _, q := range queues {
		if q.Refused == nil {
			known[q.arn()] = q
		}
	}
	for _, q := range queues {
		follow(ctx, c, q, known)
	}
	for _, q := range known {
		if q.Dead != nil {
			q.Dead.IsDead = true
		}
	}
	return queues, nil
}

// follow finds the dead-letter queue of q, and that of the dead-letter queue, and so on.
func follow(ctx context.Context, c *cli.Client, q *Examined, known map[string]*Examined) {
	for q.target != "" && q.Dead == nil && q.denied == nil {
		next, ok := known[q.target]
		if !ok {
			if regionOfARN(q.target) != regionOfARN(q.arn()) {
				q.denied = errElsewhere
				return
			}
			name := cli.QueueNameOf(q.target)
			url, err := c.QueueURL(ctx, name)
			if err == nil {
				var attributes map[string]string
				attributes, err = c.AllAttributes(ctx, url)
				next = newExamined(cli.QueueRef{Name: name, URL: url}, attributes)
			}
			if err != nil {
				q.denied = err
				return
			}
			known[q.target] = next
		}
		q.Dead = next
		q = next
	}
}

// errElsewhere is why a dead-letter queue is not read.
var errElsewhere = errors.New("it is in another region")

func isNotFound(err error) bool {
	answer, ok := errors.AsType[smithy.APIError](err)
	return ok && cli.ErrorKind(answer) == "NonExistentQueue"
}

// HasSources reports whether dead letters of other queues come to a queue; false if the server does
// not say.
func HasSources(ctx context.Context, c *cli.Client, url string) bool {
	sources, _ := c.Sources(ctx, url)
	return len(sources) > 0
}

// addAges asks a tenaq server how old the oldest messages are.
func (d *Doctor) addAges(ctx context.Context, subject string, queues []*Examined, named bool) {
	if len(queues) == 0 {
		return
	}
	if d.kind != KindTenaq {
		d.find(subject, "ages", unchecked("ask CloudWatch, if there is one, with: tenaq watch",
			"%s does not report the age of its messages", d.Endpoint))
		return
	}
	v := &cli.V1Client{C: d.client, HTTP: d.HTTP, Lack: LacksAges}
	ages := map[string]time.Duration{}
	var err error
	if named {
		for _, q := range queues {
			err = errors.Join(err, Ages(ctx, v, q.Name, 1, ages))
		}
	} else {
		err = Ages(ctx, v, "", d.limit, ages)
	}
	if err != nil {
		d.find(subject, "ages", unchecked("", "%v", err))
	}
	for _, q := range queues {
		age, ok := ages[q.Name]
		// its retention counts from the move, which is not reported
		if !ok || q.isFIFO() && q.IsDead {
			continue
		}
		retention, kept := q.seconds("MessageRetentionPeriod")
		if kept && age.Seconds() > ageWarns*retention.Seconds() {
			if sent, err := sinceSent(ctx, v, q.Name); err == nil {
				age = min(age, sent)
			}
		}
		q.age = &age
	}
}

// addTags reads the tags of queues, which switch extensions on.
func addTags(ctx context.Context, c *cli.Client, queues []*Examined) {
	var group errgroup.Group
	group.SetLimit(readsAtOnce)
	for _, q := range queues {
		if q.Refused != nil {
			continue
		}
		group.Go(func() error {
			out, err := cli.Call(ctx, c, c.ListQueueTags, &sqs.ListQueueTagsInput{QueueUrl: &q.URL})
			if q.untold = err; err == nil {
				q.tags = out.Tags
			}
			return nil
		})
	}
	_ = group.Wait() // each queue has its own error
}

// addHeld counts the held groups of queues that can have any. Without the right to list groups,
// there is no finding.
func (d *Doctor) addHeld(ctx context.Context, queues []*Examined) {
	v := &cli.V1Client{C: d.client, HTTP: d.HTTP}
	for _, q := range queues {
		if q.extensions().HoldGroup {
			q.held, _ = v.HeldGroups(ctx, q.Name)
		}
	}
}

// LacksAges ends the error for servers that do not report the age of messages.
const LacksAges = "does not report the age of messages"

// sinceSent returns the age of the oldest of the first messages of a queue since its latest send,
// from which retention counts. The age of a queue counts from the first send, before a move task or
// a redriver brought the message back.
func sinceSent(ctx context.Context, v *cli.V1Client, queue string) (time.Duration, error) {
	list, err := v.Messages(ctx, queue, url.Values{}, cli.PeekPage)
	var oldest int64
	for i := range list.Messages {
		oldest = max(oldest, list.Messages[i].AgeMS)
	}
	return time.Duration(oldest) * time.Millisecond, err
}

// Ages adds the ages of the oldest messages of up to limit queues whose names have a prefix. Empty
// queues are omitted.
func Ages(
	ctx context.Context, v *cli.V1Client, prefix string, limit int, to map[string]time.Duration,
) error {
	query := url.Values{}
	if prefix != "" {
		query.Set("prefix", prefix)
	}
	list, err := v.Queues(ctx, query, limit)
	for i := range list.Queues {
		if q := &list.Queues[i]; q.Visible+q.InFlight+q.Delayed > 0 {
			to[q.Name] = time.Duration(q.OldestAgeMS) * time.Millisecond
		}
	}
	return err
}

// loop returns the names of the queues around which dead letters of q go; nil when they come to an
// end.
func (q *Examined) loop() []string {
	seen := map[*Examined]bool{}
	var names []string
	for at := q; at != nil; at = at.Dead {
		if seen[at] {
			return append(names, at.Name)
		}
		seen[at] = true
		names = append(names, at.Name)
	}
	return nil
}
