package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"golang.org/x/sync/errgroup"

	"tenaq/internal/cli"
)

// An Examined queue is what the checks of a queue know of it.
type Examined struct {
	cli.QueueRef
	Attributes map[string]string

	kind   endpointKind
	policy *redrivePolicy
	Dead   *Examined // where its dead letters go; nil when there is none, or it could not be read
	denied error     // why it could not be
	IsDead bool      // dead letters of others come here, as far as is known
	age    *time.Duration
	times  handlingTimes

	Refused error // why nothing could be read of it
}

// A redrivePolicy is what the attribute of that name says.
type redrivePolicy struct {
	Target      string      `json:"deadLetterTargetArn"`
	MaxReceives json.Number `json:"maxReceiveCount"` // takes a text of digits too
}

func (p *redrivePolicy) most() int64 {
	n, _ := p.MaxReceives.Int64()
	return n
}

func newExamined(q cli.QueueRef, attributes map[string]string) *Examined {
	e := &Examined{QueueRef: q, Attributes: attributes}
	var policy redrivePolicy
	if json.Unmarshal([]byte(attributes["RedrivePolicy"]), &policy) == nil && policy.Target != "" {
		e.policy = &policy
	}
	return e
}

func (q *Examined) arn() string { return q.Attributes["QueueArn"] }

func (q *Examined) isFIFO() bool { return q.Attributes["FifoQueue"] == "true" }

// seconds reads an attribute; false when the server does not tell it.
func (q *Examined) seconds(name string) (time.Duration, bool) {
	n, err := strconv.ParseInt(q.Attributes[name], 10, 64)
	return time.Duration(n) * time.Second, err == nil
}

// readsAtOnce is how many queues are asked for at the same time.
const readsAtOnce = 8

// examineQueues reads the queues and judges each.
func (d *Doctor) examineQueues(ctx context.Context, names []string) error {
	subject := "endpoint " + d.Endpoint.String()
	refs, more, err := QueueRefs(d.client, ctx, names, "", d.limit)
	var refusal smithy.APIError
	switch {
	case len(names) == 0 && errors.As(err, &refusal):
		d.find(subject, "queues", unchecked("name the queues", "%v", err))
		return nil
	case err != nil:
		return err
	case more:
		d.find(subject, "queues",
			unchecked("raise --limit, or name those that matter",
				"there are more than the %d that were looked at", d.limit))
	}
	queues, err := Examine(d.client, ctx, refs)
	if err != nil {
		return err
	}
	d.addAges(ctx, subject, queues, len(names) > 0)
	d.addTimes(ctx, subject, queues)
	for _, q := range queues {
		q.kind = d.kind
		if len(names) > 0 && q.policy == nil && !q.IsDead {
			q.IsDead = HasSources(d.client, ctx, q.URL)
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
	}
	return nil
}

// QueueRefs finds the queues that are named, or all whose names have the prefix, up to a number of
// them.
func QueueRefs(
	c *cli.Client, ctx context.Context, names []string, prefix string, limit int,
) (refs []cli.QueueRef, more bool, err error) {
	for _, name := range names {
		url, err := c.QueueURL(ctx, name)
		if err != nil {
			return nil, false, err
		}
		refs = append(refs, cli.QueueRef{Name: cli.QueueNameOf(url), URL: url})
	}
	if len(names) > 0 {
		return refs, false, nil
	}
	// Without MaxResults SQS answers the first thousand and no token to go on with.
	in := &sqs.ListQueuesInput{MaxResults: aws.Int32(1000)}
	if prefix != "" {
		in.QueueNamePrefix = &prefix
	}
	for {
		out, err := cli.Call(ctx, c, c.ListQueues, in)
		if err != nil {
			return nil, false, explained{c.Explain("list queues", "", err), err}
		}
		for _, url := range out.QueueUrls {
			if len(refs) == limit {
				return refs, true, nil
			}
			refs = append(refs, cli.QueueRef{Name: cli.QueueNameOf(url), URL: url})
		}
		if in.NextToken = out.NextToken; aws.ToString(in.NextToken) == "" {
			return refs, false, nil
		}
	}
}

// explained is an error as a person reads it, which still is the one that it was.
type explained struct {
	error
	cause error
}

func (e explained) Unwrap() []error { return []error{e.error, e.cause} }

// Examine reads the attributes of queues, and of those that their dead letters go to. A queue that
// is deleted meanwhile is left out. Of one that may not be read, only that is known.
func Examine(c *cli.Client, ctx context.Context, refs []cli.QueueRef) ([]*Examined, error) {
	read := make([]*Examined, len(refs))
	group, inGroup := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for i, ref := range refs {
		group.Go(func() error {
			attributes, err := attributesOf(c, inGroup, ref.URL)
			var answer smithy.APIError
			switch {
			case isNotFound(err):
				return nil
			case errors.As(err, &answer) &&
				strings.HasPrefix(cli.ErrorKind(answer), "AccessDenied"):
				read[i] = &Examined{QueueRef: ref,
					Refused: c.Explain("read the attributes of", ref.Name, err)}
				return nil
			case err != nil:
				return c.Explain("read the attributes of", ref.Name, err)
			}
			read[i] = newExamined(ref, attributes)
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
		follow(c, ctx, q, known)
	}
	for _, q := range known {
		if q.Dead != nil {
			q.Dead.IsDead = true
		}
	}
	return queues, nil
}

// follow finds the queue that the dead letters of q go to, and the one that those go to, and so on.
func follow(c *cli.Client, ctx context.Context, q *Examined, known map[string]*Examined) {
	for q.policy != nil && q.Dead == nil && q.denied == nil {
		target := q.policy.Target
		next, ok := known[target]
		if !ok {
			if regionOfARN(target) != regionOfARN(q.arn()) {
				q.denied = errElsewhere
				return
			}
			url, err := queueURLOf(c, ctx, target)
			if err == nil {
				var attributes map[string]string
				attributes, err = attributesOf(c, ctx, url)
				next = newExamined(cli.QueueRef{Name: cli.QueueNameOf(url), URL: url}, attributes)
			}
			if err != nil {
				q.denied = err
				return
			}
			known[target] = next
		}
		q.Dead = next
		q = next
	}
}

// errElsewhere is why a queue is not asked for.
var errElsewhere = errors.New("it is in another region")

func attributesOf(c *cli.Client, ctx context.Context, url string) (map[string]string, error) {
	out, err := cli.Call(ctx, c, c.GetQueueAttributes, &sqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return nil, err
	}
	if out.Attributes == nil {
		return map[string]string{}, nil
	}
	return out.Attributes, nil
}

// queueURLOf returns the URL of the queue of an ARN, with the error as the server gave it.
func queueURLOf(c *cli.Client, ctx context.Context, arn string) (string, error) {
	name := cli.QueueNameOf(arn)
	out, err := cli.Call(ctx, c, c.GetQueueUrl, &sqs.GetQueueUrlInput{QueueName: &name})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.QueueUrl), nil
}

func isNotFound(err error) bool {
	var answer smithy.APIError
	return errors.As(err, &answer) && cli.ErrorKind(answer) == "NonExistentQueue"
}

// HasSources tells whether dead letters of other queues come to one; false where that cannot be
// asked.
func HasSources(c *cli.Client, ctx context.Context, url string) bool {
	out, err := cli.Call(ctx, c, c.ListDeadLetterSourceQueues,
		&sqs.ListDeadLetterSourceQueuesInput{QueueUrl: &url})
	return err == nil && len(out.QueueUrls) > 0
}

// addAges asks a server of ours how old the oldest messages are.
func (d *Doctor) addAges(ctx context.Context, subject string, queues []*Examined, named bool) {
	if len(queues) == 0 {
		return
	}
	if d.kind != KindTenaq {
		d.find(subject, "ages", unchecked("tenaq watch asks CloudWatch for ApproximateAgeOfOldestMessage, where there is one", "%s does not tell how old its messages are", d.Endpoint))
		return
	}
	v := &cli.V1Client{C: d.client, HTTP: d.HTTP, Lack: "does not tell how old messages are"}
	ages := map[string]time.Duration{}
	var err error
	if named {
		for _, q := range queues {
			err = errors.Join(err, Ages(v, ctx, q.Name, 1, ages))
		}
	} else {
		err = Ages(v, ctx, "", d.limit, ages)
	}
	if err != nil {
		d.find(subject, "ages", unchecked("", "%v", err))
	}
	for _, q := range queues {
		age, ok := ages[q.Name]
		retention, kept := q.seconds("MessageRetentionPeriod")
		switch {
		case !ok || q.isFIFO() &&
			q.IsDead: // retention counts from the move there, and that is not told
			continue
		case kept && age.Seconds() > ageWarns*retention.Seconds():
			if sent, err := sinceSent(v, ctx, q.Name); err == nil {
				age = min(age, sent)
			}
		}
		q.age = &age
	}
}

// sinceSent returns how old the oldest of the first messages of a queue is by its latest send,
// which retention counts from. The age of a queue counts from the first send, before a move task or
// a redriver has brought the message back.
func sinceSent(v *cli.V1Client, ctx context.Context, queue string) (time.Duration, error) {
	var page cli.PeekedList
	err := v.Get(ctx, "look at", queue, "/queues/"+url.PathEscape(queue)+"/messages",
		url.Values{"limit": {strconv.Itoa(cli.PeekPage)}}, &page)
	var oldest int64
	for i := range page.Messages {
		oldest = max(oldest, page.Messages[i].AgeMS)
	}
	return time.Duration(oldest) * time.Millisecond, err
}

// Ages adds the ages of the oldest messages of queues whose names have a prefix, as far as there
// are messages.
func Ages(
	v *cli.V1Client, ctx context.Context, prefix string, limit int, to map[string]time.Duration,
) error {
	next := ""
	for n := 0; n < limit; {
		query := url.Values{"limit": {strconv.Itoa(min(cli.PeekQueuesPage, limit-n))}}
		if prefix != "" {
			query.Set("prefix", prefix)
		}
		if next != "" {
			query.Set("after", next)
		}
		var page cli.PeekedQueues
		if err := v.Get(ctx, "look at the queues", "", "/queues", query, &page); err != nil {
			return err
		}
		for i := range page.Queues {
			q := &page.Queues[i]
			if q.Visible+q.InFlight+q.Delayed > 0 {
				to[q.Name] = time.Duration(q.OldestAgeMS) * time.Millisecond
			}
		}
		n += len(page.Queues)
		if next = page.Next; next == "" || len(page.Queues) == 0 {
			break
		}
	}
	return nil
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
