package sqs

import (
	"strings"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/api/wire"
	"tenaq/internal/engine"
)

func queueOperations() []*operation {
	return []*operation{
		with(onOther("CreateQueue",
			func(c *call, req *sqswire.CreateQueueRequest) engine.QueueName {
				return c.ownQueue(req.QueueName.Value)
			}, (*call).createQueue), rightsToCreate),
		onOther("GetQueueUrl", queueAsked, (*call).getQueueURL),
		onOther("ListQueues", func(c *call, _ *sqswire.ListQueuesRequest) engine.QueueName {
			return c.account()
		}, (*call).listQueues),
		onQueue("ListDeadLetterSourceQueues", (*call).listDeadLetterSourceQueues),
		onQueue("GetQueueAttributes", (*call).getQueueAttributes),
		onQueue("ListQueueTags", (*call).listQueueTags),
		void("DeleteQueue", func(c *call, req *sqswire.DeleteQueueRequest) engine.Op {
			return &engine.DeleteQueue{Queue: c.queue(req.QueueURL)}
		}),
		void("PurgeQueue", func(c *call, req *sqswire.PurgeQueueRequest) engine.Op {
			return &engine.PurgeQueue{Queue: c.queue(req.QueueURL)}
		}),
		void("SetQueueAttributes", func(c *call, req *sqswire.SetQueueAttributesRequest) engine.Op {
			return &engine.SetQueueAttributes{Queue: c.queue(req.QueueURL),
				Values: valueMap(req.Attributes)}
		}),
		void("AddPermission", func(c *call, req *sqswire.AddPermissionRequest) engine.Op {
			return &engine.AddPermission{
				Queue: c.queue(req.QueueURL), Label: engine.Text(req.Label),
				Accounts: req.AWSAccountIDs, Actions: req.Actions,
			}
		}),
		void("RemovePermission", func(c *call, req *sqswire.RemovePermissionRequest) engine.Op {
			return &engine.RemovePermission{Queue: c.queue(req.QueueURL),
				Label: engine.Text(req.Label)}
		}),
		void("TagQueue", func(c *call, req *sqswire.TagQueueRequest) engine.Op {
			return &engine.TagQueue{Queue: c.queue(req.QueueURL), Tags: tags(req.Tags)}
		}),
		void("UntagQueue", func(c *call, req *sqswire.UntagQueueRequest) engine.Op {
			return &engine.UntagQueue{Queue: c.queue(req.QueueURL), Keys: req.TagKeys}
		}),
	}
}

// rightsToCreate is the right to the tags that a new queue is given.
func rightsToCreate(c *call, req *sqswire.CreateQueueRequest) []right {
	if len(req.Tags) == 0 {
		return nil
	}
	return []right{{"TagQueue", c.ownQueue(req.QueueName.Value)}}
}

// queueAsked is the queue whose URL is asked for.
func queueAsked(c *call, req *sqswire.GetQueueURLRequest) engine.QueueName {
	return engine.QueueName{Account: req.QueueOwnerAWSAccountID.Or(c.principal.Account()),
		Name: req.QueueName.Value}
}

// queue reads a queue URL. Only the last two segments of its path count, and one segment is a name
// in the caller's account. What is not a queue URL at all becomes a name that no queue has.
// [QUEUE-33, QUEUE-34, QUEUE-35]
func (c *call) queue(u sqswire.Opt[string]) engine.QueueName {
	path := strings.TrimSuffix(u.Value, "/")
	if scheme := strings.Index(path, "://"); scheme >= 0 {
		path = path[scheme+3:]
		slash := strings.IndexByte(path, '/')
		if slash < 0 {
			return engine.QueueName{}
		}
		path = path[slash+1:]
	}
	last := strings.LastIndexByte(path, '/')
	if last < 0 {
		return engine.QueueName{Account: c.principal.Account(), Name: path}
	}
	account := path[:last]
	account = account[strings.LastIndexByte(account, '/')+1:]
	return engine.QueueName{Account: account, Name: path[last+1:]}
}

// url returns the URL of a queue. [QUEUE-36]
func (c *call) url(n engine.QueueName) string {
	return wire.BaseURL(c.h.cfg.PublicURL, c.http) + "/" + n.Account + "/" + n.Name
}

func (c *call) urls(names []engine.QueueName) (urls []string) {
	for _, n := range names {
		urls = append(urls, c.url(n))
	}
	return urls
}

func (c *call) createQueue(req *sqswire.CreateQueueRequest) (response, error) {
	name := c.ownQueue(req.QueueName.Value)
	err := c.do(&engine.CreateQueue{
		Queue:      name,
		NameSet:    req.QueueName.Set,
		Attributes: valueMap(req.Attributes),
		Tags:       tags(req.Tags),
	})
	if err != nil {
		return response{}, err
	}
	return answer(&sqswire.CreateQueueResponse{QueueURL: c.url(name)})
}

func (c *call) getQueueURL(req *sqswire.GetQueueURLRequest) (response, error) {
	name := queueAsked(c, req)
	if err := c.do(&engine.GetQueueURL{Queue: name, NameSet: req.QueueName.Set}); err != nil {
		return response{}, err
	}
	return answer(&sqswire.GetQueueURLResponse{QueueURL: c.url(name)})
}

func (c *call) listQueues(req *sqswire.ListQueuesRequest) (response, error) {
	op := &engine.ListQueues{
		Account:    c.principal.Account(),
		Prefix:     req.QueueNamePrefix.Value,
		MaxResults: engine.Int(req.MaxResults),
		NextToken:  req.NextToken.Value,
	}
	if err := c.do(op); err != nil {
		return response{}, err
	}
	return answer(&sqswire.ListQueuesResponse{QueueURLs: c.urls(op.Queues),
		NextToken: op.Next})
}

func (c *call) listDeadLetterSourceQueues(
	req *sqswire.ListDeadLetterSourceQueuesRequest,
) (response, error) {
	op := &engine.ListDeadLetterSourceQueues{
		Queue:      c.queue(req.QueueURL),
		MaxResults: engine.Int(req.MaxResults),
		NextToken:  req.NextToken.Value,
	}
	if err := c.do(op); err != nil {
		return response{}, err
	}
	return answer(&sqswire.ListDeadLetterSourceQueuesResponse{QueueURLs: c.urls(op.Queues),
		NextToken: op.Next})
}

func (c *call) getQueueAttributes(req *sqswire.GetQueueAttributesRequest) (response, error) {
	op := &engine.GetQueueAttributes{Queue: c.queue(req.QueueURL),
		Names: req.AttributeNames}
	if err := c.do(op); err != nil {
		return response{}, err
	}
	resp := new(sqswire.GetQueueAttributesResponse)
	for name, value := range op.Attributes {
		resp.Attributes = append(resp.Attributes, sqswire.Pair{Name: name, Value: value})
	}
	return answer(resp) // the encoder sorts
}

func (c *call) listQueueTags(req *sqswire.ListQueueTagsRequest) (response, error) {
	op := &engine.ListQueueTags{Queue: c.queue(req.QueueURL)}
	if err := c.do(op); err != nil {
		return response{}, err
	}
	resp := new(sqswire.ListQueueTagsResponse)
	for _, t := range op.Tags {
		resp.Tags = append(resp.Tags, sqswire.Pair{Name: t.Key, Value: t.Value})
	}
	return answer(resp)
}

func valueMap(pairs sqswire.Pairs) map[string]string {
	m := make(map[string]string, len(pairs))
	for _, p := range pairs {
		m[p.Name] = p.Value
	}
	return m
}

func tags(pairs sqswire.Pairs) []engine.Tag {
	var ts []engine.Tag
	for _, p := range pairs {
		ts = append(ts, engine.Tag{Key: p.Name, Value: p.Value})
	}
	return ts
}
