package cli

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

// A queueAddress is what the URL or the ARN of a queue says. What it does not say is empty.
type queueAddress struct{ host, region, account, name string }

func addressOf(queue string) (a queueAddress, err error) {
	switch {
	case IsQueueARN(queue):
		arn := strings.Split(queue, ":")
		if len(arn) != 6 || arn[2] != "sqs" || arn[5] == "" {
			return a, Usagef("%q is not the ARN of a queue, such as arn:aws:sqs:us-east-1:000000000000:orders", queue)
		}
		return queueAddress{region: arn[3], account: arn[4], name: arn[5]}, nil
	case IsQueueURL(queue):
		u, err := url.Parse(queue)
		if err != nil || strings.Trim(u.Path, "/") == "" {
			return a, Usagef("%q is not the URL of a queue, such as %s/000000000000/orders", queue,
				DefaultEndpoint)
		}
		a = queueAddress{host: hostOf(u), name: QueueNameOf(queue)}
		// The last two segments count, and an account is only in front of a name. [QUEUE-34]
		path := strings.Split(strings.Trim(u.Path, "/"), "/")
		if len(path) > 1 {
			a.account = path[len(path)-2]
		}
		if region, ok := strings.CutPrefix(u.Hostname(), "sqs."); ok && IsAmazonURL(queue) {
			a.region, _, _ = strings.Cut(region, ".")
		}
		return a, nil
	}
	return queueAddress{name: queue}, nil
}

// hostOf returns host and port. All names of this machine are one host.
func hostOf(u *url.URL) string {
	host, port := strings.ToLower(u.Hostname()), u.Port()
	if IsLoopbackHost(host) {
		host = "localhost"
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(host, port)
}

// checkService refuses a queue of Amazon at another server, and the other way round.
func (c *Client) checkService(queue string, a queueAddress) error {
	switch amazon := IsAmazonURL(queue); {
	case amazon && c.Endpoint.IsLoopback():
		return Usagef("%s is a queue of Amazon and requests go to %s; add --aws", queue,
			c.Endpoint)
	case !c.Endpoint.IsAmazon():
		return nil
	case IsQueueURL(queue) && !amazon:
		return Usagef("%s is not a queue of Amazon and requests go to %s; name its server with --endpoint-url",
			queue, c.Endpoint)
	case a.region != "" && a.region != c.Options().Region:
		return Usagef("%s is in another region than %s; add --region %s", queue,
			c.Options().Region, a.region)
	}
	return nil
}

// checkARN refuses the ARN of a queue whose account or region differs from the ones in the ARN that
// the server has for the queue of this name.
func (c *Client) checkARN(queue string, a queueAddress, arn string) error {
	own, err := addressOf(arn)
	if err != nil {
		return nil // another server, whose ARNs have another form
	}
	for _, part := range []struct{ what, given, own string }{
		{"account", a.account, own.account}, {"region", a.region, own.region},
	} {
		if part.given != "" && part.own != "" && part.given != part.own {
			return Usagef("%s names the %s %s, and the queue %s of %s has %s; pass only the name if you mean this queue, or the right server with --endpoint-url",
				queue, part.what, part.given, a.name, c.Endpoint, part.own)
		}
	}
	return nil
}

// checkHost refuses the URL of a queue whose host is neither that of the endpoint nor the one that
// the server gives to its queues. Servers ignore the host [QUEUE-34], and a client that reaches its
// server through a tunnel has URLs with a host that neither of them knows. So it is checked only if
// the client was not told where the server is: then the URL is all that says so.
func (c *Client) checkHost(queue string, a queueAddress, ownURL func() string) error {
	endpoint, err := url.Parse(c.Endpoint.URL)
	if err != nil || c.Endpoint.Origin != originDefault || a.host == hostOf(endpoint) {
		return nil
	}
	own, err := url.Parse(ownURL())
	if err != nil || own.Host == "" || a.host == hostOf(own) {
		return nil
	}
	return Usagef("%s names the host %s and requests go to %s; pass its server with --endpoint-url, or only the name if you mean the queue %s of %[3]s",
		queue, a.host, c.Endpoint, a.name)
}

// QueueURL returns the URL of a queue given by name, URL or ARN. It asks the server for it, because
// only the server knows the account and the address that its URLs carry. It refuses what names
// another server, account or region.
func (c *Client) QueueURL(ctx context.Context, queue string) (string, error) {
	if queue == "" {
		return "", Usagef("the name of the queue is empty")
	}
	a, err := addressOf(queue)
	if err != nil {
		return "", err
	}
	if err := c.checkService(queue, a); err != nil {
		return "", err
	}
	in := &sqs.GetQueueUrlInput{QueueName: &a.name}
	if a.account != "" {
		in.QueueOwnerAWSAccountId = &a.account
	}
	if IsQueueURL(queue) {
		return queue, c.checkHost(queue, a, func() string {
			out, err := Call(ctx, c, c.GetQueueUrl, in)
			if err != nil {
				return "" // the next request says why
			}
			return aws.ToString(out.QueueUrl)
		})
	}
	out, err := Ask(ctx, c, "cannot find queue", queue, c.GetQueueUrl, in)
	if err != nil {
		return "", err
	}
	if IsQueueARN(queue) && !c.Endpoint.IsAmazon() {
		arn, err := c.ownARN(ctx, a, aws.ToString(out.QueueUrl))
		if err == nil {
			err = c.checkARN(queue, a, arn)
		}
		if err != nil {
			return "", err
		}
	}
	return aws.ToString(out.QueueUrl), nil
}

// ownARN asks the server for the ARN of a queue. A key that may not ask signs for the region of the
// server.
func (c *Client) ownARN(ctx context.Context, a queueAddress, url string) (string, error) {
	out, err := Call(ctx, c, c.GetQueueAttributes, &sqs.GetQueueAttributesInput{QueueUrl: &url,
		AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn}})
	if denied, ok := errors.AsType[smithy.APIError](err); ok && isDenial(ErrorKind(denied)) {
		return arnOf(c.Options().Region, a.account, a.name), nil
	}
	if err != nil {
		return "", c.Explain("cannot find queue", url, err)
	}
	return out.Attributes[string(types.QueueAttributeNameQueueArn)], nil
}

func arnOf(region, account, name string) string {
	return "arn:aws:sqs:" + region + ":" + account + ":" + name
}

// QueueARN returns the ARN of a queue given by name, URL or ARN. An ARN is taken as it is: the
// server gets it whole, and checks it.
func (c *Client) QueueARN(ctx context.Context, queue string) (string, error) {
	if IsQueueARN(queue) {
		return queue, nil
	}
	url, err := c.QueueURL(ctx, queue)
	if err != nil {
		return "", err
	}
	attributes, err := c.Attributes(ctx, "cannot find queue", url, types.QueueAttributeNameQueueArn)
	return attributes[string(types.QueueAttributeNameQueueArn)], err
}

// QueueName returns the name of a queue of the server, given by name, URL or ARN. It refuses what
// names another server, account or region: the paths of /v1 have only the name. A name is taken as
// it is.
func (v *V1Client) QueueName(ctx context.Context, queue string) (string, error) {
	if !IsQueueURL(queue) && !IsQueueARN(queue) {
		return queue, nil
	}
	a, err := addressOf(queue)
	if err != nil {
		return "", err
	}
	if err := v.C.checkService(queue, a); err != nil {
		return "", err
	}
	var own struct{ ARN, URL string }
	err = v.Get(ctx, "look up", queue, "/queues/"+url.PathEscape(a.name), nil, &own)
	if answer, ok := errors.AsType[smithy.APIError](err); ok {
		switch kind := ErrorKind(answer); {
		case isDenial(kind) && v.C.Client != nil:
			own.ARN, err = v.assumedARN(ctx, a, v.C.Options().Region)
		case isDenial(kind), kind == "NonExistentQueue":
			// A filter may name a queue that was deleted.
			own.ARN, err = v.assumedARN(ctx, a, a.region)
		}
	}
	if err != nil {
		return "", err
	}
	if err := v.C.checkARN(queue, a, own.ARN); err != nil {
		return "", err
	}
	return a.name, v.C.checkHost(queue, a, func() string { return own.URL })
}

// assumedARN is the ARN that a queue of the caller has in a region.
func (v *V1Client) assumedARN(
	ctx context.Context, a queueAddress, region string,
) (string, error) {
	var server struct{ Caller struct{ Account string } }
	err := v.Get(ctx, "ask for the account", "", "", nil, &server)
	return arnOf(region, server.Caller.Account, a.name), err
}
