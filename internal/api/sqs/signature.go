package sqs

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"strings"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/door/sigv4"
	"tenaq/internal/engine"
)

// verify makes the principal of a signed request. It does the same work for a key that there is and for one that there is
// not. [AUTH-9, AUTH-10, AUTH-34, AUTH-40]
func (d *Door) verify(signed *sigv4.Request, body []byte) (Principal, error) {
	key := d.cfg.Credentials.Find(signed.KeyID)
	var secrets *sigv4.Key
	if key != nil {
		secrets = &sigv4.Key{Secret: key.Secret.Reveal(), Token: key.Token.Reveal(), Expires: key.Expires}
	}
	if err := signed.Verify(secrets, sha256.Sum256(body)); err != nil {
		return Principal{}, signatureError(err)
	}
	return Principal{account: key.Account, id: key.UserID(), region: d.cfg.Region, key: key}, nil
}

// signatureError turns a refusal of sigv4 into one of the protocol, which has the same codes. [AUTH-7 to AUTH-16]
func signatureError(err error) error {
	var refusal *sigv4.Error
	if !errors.As(err, &refusal) {
		return err
	}
	return &sqswire.Error{Code: sqswire.ErrorCode(refusal.Code), Message: refusal.Message}
}

// refuseAmbiguous refuses a request of the JSON protocol whose body would be read as a form. Clients need not sign
// Content-Type, so who can change it on the way could otherwise make parameters of what stands in a message. The other
// way round there is no X-Amz-Target, which is always signed. [AUTH-41]
func refuseAmbiguous(r *http.Request) error {
	if r.Header.Get("X-Amz-Target") != "" && len(r.Header["Content-Type"]) > 0 {
		if len(r.Header["Content-Type"]) > 1 || isForm(r.Header.Get("Content-Type")) {
			return sqswire.Errorf(sqswire.AccessDenied, "A request with the header X-Amz-Target has a JSON body: leave that out, or send application/x-amz-json-1.0.")
		}
	}
	return nil
}

func isForm(kind string) bool {
	kind, _, _ = strings.Cut(kind, ";")
	return strings.EqualFold(strings.TrimSpace(kind), "application/x-www-form-urlencoded")
}

// Authorize refuses an action, such as cloudwatch:PutMetricAlarm, that the key of the principal does not allow. Without
// credentials everything is allowed. [AUTH-21, AUTH-38]
func (p Principal) Authorize(action, resource string) error {
	if p.key == nil || p.key.Allows(action) {
		return nil
	}
	return p.deniedBy("identity", action, resource)
}

// denied is the refusal of an action, for a reason.
func (p Principal) denied(action, resource, reason string) error {
	return sqswire.Errorf(sqswire.AccessDenied, "User: %s is not authorized to perform: %s on resource: %s %s",
		p.key.ARN(), strings.ToLower(action), resource, reason)
}

// deniedBy is the refusal of an action that no policy of a kind, identity or resource, allows.
func (p Principal) deniedBy(kind, action, resource string) error {
	return p.denied(action, resource, "because no "+kind+"-based policy allows the "+strings.ToLower(action)+" action")
}

// isAccount tells accounts from what stands at their place in a URL that is none of a queue: that is for the engine to
// say.
func isAccount(s string) bool { return len(s) == 12 && strings.Trim(s, "0123456789") == "" }

// A right is an action on a queue.
type right struct {
	action string
	queue  engine.QueueName
}

// permit refuses a request that the principal has not every right for.
func (c *call) permit(op *operation, req sqswire.Shape) error {
	if c.principal.key == nil {
		return nil
	}
	for _, r := range op.rights(c, req) {
		if err := c.allow("sqs:"+r.action, r.queue); err != nil {
			return err
		}
	}
	if start, ok := req.(*sqswire.StartMessageMoveTaskRequest); ok && !start.DestinationARN.Set {
		return c.permitReturn()
	}
	return nil
}

// permitReturn refuses to bring the messages of a dead-letter queue back to where they came from, unless the principal may
// send to every queue of the account: its key allows it, and the policy of none of them denies it. Each message says itself
// where it came from, and that need not be a queue that has the dead-letter queue now. [AUTH-48]
func (c *call) permitReturn() error {
	account := c.principal.account
	if err := c.allow("sqs:SendMessage", engine.QueueName{Account: account}); err != nil {
		return err
	}
	list := engine.ListQueues{Account: account, MaxResults: engine.Int{Value: returnPage, Set: true}}
	for {
		res, err := c.do(list)
		if err != nil {
			return err
		}
		for _, queue := range res.Queues {
			if err := c.allow("sqs:SendMessage", queue); err != nil {
				return err
			}
		}
		if list.NextToken = res.NextToken; list.NextToken == "" {
			return nil
		}
	}
}

// returnPage is how many queues are asked for at a time, the most that a listing has. [QUEUE-24]
const returnPage = 1000

// queueOfARN reads arn:aws:sqs:region:account:name. What is something else is no queue, as the engine will say.
func queueOfARN(arn sqswire.Opt[string]) engine.QueueName {
	parts := strings.Split(arn.Value, ":")
	if len(parts) != 6 {
		return engine.QueueName{}
	}
	return engine.QueueName{Account: parts[4], Name: parts[5]}
}
