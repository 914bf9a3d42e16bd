package server

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"tenaq/internal/server/backup"
)

// A script is what the sweep asks of a server, one step after the other: everything that writes.
//
// Each step is acknowledged as a whole, refused as a whole, or under way when the server ends. So
// after a fault the state is the one after the last step that was acknowledged, or the one after
// the step that was under way.
type step struct {
	name string
	do   func(c *scriptClient) (answer string, err error)

	// refusable says that the server may refuse the step and continue when a file beside the store
	// cannot be written.
	refusable bool
}

// A refusal is an answer other than 200.
type refusal struct {
	status int
	body   string
}

func (r *refusal) Error() string { return fmt.Sprintf("status %d: %s", r.status, r.body) }

// A scriptClient goes through the script, and remembers the answers.
type scriptClient struct {
	url     string
	http    *http.Client
	restart func() (url string, err error) // stops the server, and starts it again

	handles map[string]string // by name of the message: of its last receive
	ids     map[string]string // by deduplication id: what the first send was answered
	alarms  map[string]bool   // that were put, and answered
	crowd   map[string]bool   // messages sent beside each other: whether that was answered
	backups [][]byte          // that are whole, as their reader finds
	poll    chan error        // what has become of a receive that waits for longer than the script takes
}

func newScriptClient(url string) *scriptClient {
	return &scriptClient{
		url: url,
		// No connection is used twice: a request is never sent again after one that was cut off.
		http:    &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 2 * faultPatience},
		handles: make(map[string]string), ids: make(map[string]string), alarms: make(map[string]bool), crowd: make(map[string]bool),
	}
}

// at returns a client of another server, a healthy one, that knows what c knows. It must be closed.
func (c *scriptClient) at(url string) *scriptClient {
	other := *c
	other.url, other.http = url, &http.Client{Transport: &http.Transport{}, Timeout: 2 * faultPatience}
	return &other
}

func (c *scriptClient) close() { c.http.CloseIdleConnections() }

// post makes a request whose body is JSON, and decodes the answer.
func (c *scriptClient) post(path, target string, in, out any) error {
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequest("POST", c.url+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if target != "" {
		req.Header.Set("Content-Type", "application/x-amz-json-1.0")
		req.Header.Set("X-Amz-Target", target)
	}
	return c.do(req, out)
}

func (c *scriptClient) do(req *http.Request, out any) error {
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return &refusal{resp.StatusCode, string(b)}
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("a wrong answer: %w: %.100q", err, b)
	}
	return nil
}

type fields = map[string]any

// sqs makes a request of the SQS API.
func (c *scriptClient) sqs(action string, in fields, out any) error {
	return c.post("/", "AmazonSQS."+action, in, out)
}

// look reads what is under /v1.
func (c *scriptClient) look(path string, out any) error {
	req, err := http.NewRequest("GET", c.url+path, nil)
	if err != nil {
		return err
	}
	return c.do(req, out)
}

// text is the body of a message: its name, and bytes that nothing can make smaller.
func text(name string, size int) string {
	h := fnv.New64a()
	h.Write([]byte(name))
	rng := rand.New(rand.NewPCG(h.Sum64(), 1))
	b := make([]byte, size/2)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return name + " " + hex.EncodeToString(b)
}

// nameOf is the name of a message whose body is what was sent, and else says that it is not.
func nameOf(body string) string {
	name, rest, _ := strings.Cut(body, " ")
	if body != text(name, len(rest)) {
		return fmt.Sprintf("wrong body of %d bytes: %.40q", len(body), body)
	}
	return fmt.Sprintf("%s of %d", name, len(rest))
}

// request is a step of one request whose answer says nothing.
func request(action, queue string, in fields) step {
	in = maps.Clone(in)
	if in == nil {
		in = fields{}
	}
	if action != "CreateQueue" {
		in["QueueUrl"] = queue
	} else {
		in["QueueName"] = queue
	}
	return step{name: action + " " + queue, do: func(c *scriptClient) (string, error) {
		var got struct {
			Successful []struct{ Id string }
			Failed     []any
		}
		err := c.sqs(action, in, &got)
		return fmt.Sprintf("%d successful, %d failed", len(got.Successful), len(got.Failed)), err
	}}
}

func send(queue, name string, size int, more fields) step {
	in := fields{"QueueUrl": queue, "MessageBody": text(name, size)}
	maps.Copy(in, more)
	return step{name: "SendMessage " + name, do: func(c *scriptClient) (string, error) {
		var got struct{ MessageId, SequenceNumber string }
		if err := c.sqs("SendMessage", in, &got); err != nil {
			return "", err
		}
		id, ok := in["MessageDeduplicationId"].(string)
		if !ok {
			return "", nil
		}
		if _, again := c.ids[id]; !again {
			c.ids[id] = got.MessageId
		}
		return fmt.Sprintf("the one of the first send: %v", c.ids[id] == got.MessageId), nil
	}}
}

func sendBatch(queue string, size int, names ...string) step {
	var entries []fields
	for i, name := range names {
		e := fields{"Id": fmt.Sprint(i), "MessageBody": text(name, size)}
		if strings.HasSuffix(queue, ".fifo") {
			e["MessageGroupId"], e["MessageDeduplicationId"] = "g"+name[:1], name
		}
		entries = append(entries, e)
	}
	return request("SendMessageBatch", queue, fields{"Entries": entries})
}

// receive takes messages and keeps their handles by their names.
func receive(queue string, n int) step {
	return step{name: "ReceiveMessage " + queue, do: func(c *scriptClient) (string, error) {
		var got struct {
			Messages []struct {
				Body, ReceiptHandle string
				Attributes          map[string]string
				MessageAttributes   map[string]struct{ StringValue string }
			}
		}
		err := c.sqs("ReceiveMessage", fields{"QueueUrl": queue, "MaxNumberOfMessages": n, "VisibilityTimeout": 43_000,
			"AttributeNames": []string{"ApproximateReceiveCount"}, "MessageAttributeNames": []string{"All"}}, &got)
		var names []string
		for _, m := range got.Messages {
			name := nameOf(m.Body)
			c.handles[strings.Fields(name)[0]] = m.ReceiptHandle
			names = append(names, fmt.Sprint(name, " for the time ", m.Attributes["ApproximateReceiveCount"], m.MessageAttributes))
		}
		slices.Sort(names)
		return strings.Join(names, ", "), err
	}}
}

// handled is a step with the handles of messages: one of them, or a batch.
func handled(action, queue string, more fields, names ...string) step {
	return step{name: action + " " + strings.Join(names, " "), do: func(c *scriptClient) (string, error) {
		in := fields{"QueueUrl": queue}
		entry := func(into fields, name string) fields {
			into["ReceiptHandle"] = c.handles[name]
			maps.Copy(into, more)
			return into
		}
		if len(names) == 1 {
			return "", c.sqs(action, entry(in, names[0]), nil)
		}
		var entries []fields
		for _, name := range names {
			entries = append(entries, entry(fields{"Id": name}, name))
		}
		in["Entries"] = entries
		var got struct{ Successful, Failed []any }
		err := c.sqs(action+"Batch", in, &got)
		return fmt.Sprintf("%d successful, %d failed", len(got.Successful), len(got.Failed)), err
	}}
}

// moveAll moves dead letters, and waits until that is done.
func moveAll(from string) step {
	return step{name: "StartMessageMoveTask " + from, do: func(c *scriptClient) (string, error) {
		if err := c.sqs("StartMessageMoveTask", fields{"SourceArn": arn(from)}, nil); err != nil {
			return "", err
		}
		return c.moved(from)
	}}
}

func arn(queue string) string { return "arn:aws:sqs:us-east-1:000000000000:" + queue }

// moved waits until no move task of a queue is running, and says what became of all of them.
func (c *scriptClient) moved(from string) (string, error) {
	for end := time.Now().Add(faultPatience); ; time.Sleep(2 * time.Millisecond) {
		var got struct {
			Results []struct {
				Status                           string
				ApproximateNumberOfMessagesMoved int
				FailureReason                    string
			}
		}
		if err := c.sqs("ListMessageMoveTasks", fields{"SourceArn": arn(from), "MaxResults": 10}, &got); err != nil {
			return "", err
		}
		if len(got.Results) == 0 || got.Results[0].Status != "RUNNING" {
			return fmt.Sprint(got.Results), nil
		}
		if time.Now().After(end) {
			return "", fmt.Errorf("the move task of %s does not end", from)
		}
	}
}

// crowd sends several messages at the same time, so that turns overlap. Which of them are answered
// is known one by one.
func crowd(round int) step {
	return step{name: "a crowd of sends", do: func(c *scriptClient) (string, error) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		var failed []error
		for i := range 8 {
			name := fmt.Sprintf("crowd-%d-%d", round, i)
			mu.Lock()
			c.crowd[name] = false
			mu.Unlock()
			wg.Go(func() {
				err := c.sqs("SendMessage", fields{"QueueUrl": crowdQueue, "MessageBody": text(name, 3000)}, nil)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					failed = append(failed, err)
				} else {
					c.crowd[name] = true
				}
			})
		}
		wg.Wait()
		return "", errors.Join(failed...)
	}}
}

const crowdQueue = "crowd"

// backUp reads a backup to its end.
func backUp() step {
	return step{name: "backup", refusable: true, do: func(c *scriptClient) (string, error) {
		resp, err := c.http.Post(c.url+"/v1/backup", "", nil)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			b, _ := io.ReadAll(resp.Body)
			return "", &refusal{resp.StatusCode, string(b)}
		}
		var b bytes.Buffer
		_, err = backup.Read(io.TeeReader(resp.Body, &b), func(_ backup.Manifest, _ string, _ int64, r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return err
		})
		if err == nil {
			c.backups = append(c.backups, b.Bytes())
		}
		return "", err
	}}
}

// putAlarm puts an alarm, which is stored beside the store.
func putAlarm(name string) step {
	return step{name: "PutMetricAlarm " + name, refusable: true, do: func(c *scriptClient) (string, error) {
		err := c.post("/", "GraniteServiceVersion20100801.PutMetricAlarm", fields{
			"AlarmName": name, "AlarmDescription": text(name, 1000), "Namespace": "AWS/SQS", "MetricName": "ApproximateNumberOfMessagesVisible",
			"Dimensions": []fields{{"Name": "QueueName", "Value": "orders"}}, "Statistic": "Maximum", "Period": 60,
			"EvaluationPeriods": 1, "Threshold": 1000, "ComparisonOperator": "GreaterThanThreshold",
		}, nil)
		if err == nil {
			c.alarms[name] = true
		}
		return "", err
	}}
}

// waitForever has a receive wait at a queue that stays empty, until the server stops.
func waitForever(queue string) step {
	return step{name: "a receive that waits", do: func(c *scriptClient) (string, error) {
		c.poll = make(chan error, 1)
		waiting, began := *c, time.Now()
		go func() {
			err := waiting.sqs("ReceiveMessage", fields{"QueueUrl": queue, "WaitTimeSeconds": 20}, nil)
			if err == nil && time.Since(began) > 15*time.Second {
				err = errors.New("it may have waited to its end")
			}
			waiting.poll <- err
		}()
		return "", nil
	}}
}

func restartServer() step {
	return step{name: "a restart", do: func(c *scriptClient) (_ string, err error) {
		c.url, err = c.restart()
		return "", err
	}}
}

// script returns the steps. Whatever is received stays hidden for longer than the test takes,
// unless it is given back.
func script() []step {
	fifo := fields{"FifoQueue": "true"}
	dead := func(target string, n int) string {
		return fmt.Sprintf(`{"deadLetterTargetArn":"%s","maxReceiveCount":"%d"}`, arn(target), n)
	}
	group := func(g, id string) fields { return fields{"MessageGroupId": g, "MessageDeduplicationId": id} }
	colour := fields{"MessageAttributes": fields{"colour": fields{"DataType": "String", "StringValue": "green"}}}
	back := fields{"VisibilityTimeout": 0}

	steps := []step{
		request("CreateQueue", "dead", nil),
		request("CreateQueue", "orders", fields{"Attributes": fields{"VisibilityTimeout": "3600"}, "tags": fields{"team": "a"}}),
		request("CreateQueue", "poison", fields{"Attributes": fields{"RedrivePolicy": dead("dead", 1)}}),
		request("CreateQueue", "dead.fifo", fields{"Attributes": fifo}),
		request("CreateQueue", "ledger.fifo", fields{"Attributes": fields{"FifoQueue": "true", "RedrivePolicy": dead("dead.fifo", 1)}}),
		request("CreateQueue", "large", nil),
		request("CreateQueue", "idle", nil),
		request("CreateQueue", "scratch", nil),
		request("CreateQueue", crowdQueue, nil),

		send("orders", "o1", 40, colour),
		send("orders", "o2", 4000, nil),
		send("orders", "late", 400, fields{"DelaySeconds": 900}),
		sendBatch("orders", 300, "b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "b9"),
		send("large", "l1", 60_000, nil),
		send("large", "l2", 30_000, nil),
		send("ledger.fifo", "f1", 200, group("g1", "d1")),
		send("ledger.fifo", "f2", 200, group("g1", "d2")),
		send("ledger.fifo", "f3", 200, group("g2", "d3")),
		send("ledger.fifo", "f4", 200, group("g1", "d1")), // a duplicate
		sendBatch("ledger.fifo", 150, "a1", "a2", "b1"),
		crowd(1),

		receive("orders", 1),
		handled("ChangeMessageVisibility", "orders", fields{"VisibilityTimeout": 40_000}, "o1"),
		receive("orders", 4),
		handled("DeleteMessage", "orders", nil, "o1"),
		handled("DeleteMessage", "orders", nil, "b0", "b1"),
		handled("ChangeMessageVisibility", "orders", fields{"VisibilityTimeout": 30_000}, "o2", "b2"),
		receive("large", 2),
		handled("DeleteMessage", "large", nil, "l2"),

		send("poison", "p1", 500, colour),
		receive("poison", 1),
		handled("ChangeMessageVisibility", "poison", back, "p1"),
		receive("poison", 1), // it goes to the dead letters
		receive("ledger.fifo", 1),
		handled("ChangeMessageVisibility", "ledger.fifo", back, "f1"),
		receive("ledger.fifo", 10), // so does the head of the group
		handled("DeleteMessage", "ledger.fifo", nil, "f2"),

		request("TagQueue", "orders", fields{"Tags": fields{"team": "b", "tier": "1"}}),
		request("UntagQueue", "orders", fields{"TagKeys": []string{"tier"}}),
		request("SetQueueAttributes", "orders", fields{"Attributes": fields{"MessageRetentionPeriod": "86400", "DelaySeconds": "0"}}),
		request("AddPermission", "orders", fields{"Label": "one", "AWSAccountIds": []string{"123456789012"}, "Actions": []string{"SendMessage"}}),
		request("AddPermission", "orders", fields{"Label": "two", "AWSAccountIds": []string{"123456789012"}, "Actions": []string{"ReceiveMessage"}}),
		request("RemovePermission", "orders", fields{"Label": "one"}),

		putAlarm("deep"),
		backUp(),
		sendBatch("scratch", 2000, "s1", "s2", "s3", "s4", "s5"),
		request("PurgeQueue", "scratch", nil),
		send("scratch", "s6", 100, nil),
		restartServer(),
		waitForever("idle"),

		receive("large", 1),
		send("poison", "p2", 20_000, nil),
		receive("poison", 1),
		handled("ChangeMessageVisibility", "poison", back, "p2"),
		receive("poison", 1),
		moveAll("dead"),
		moveAll("dead.fifo"),
		handled("DeleteMessage", "orders", nil, "b2"), // by a handle of before the restart
	}
	for i := range 4 {
		names := func(s string) (n []string) {
			for j := range 6 {
				n = append(n, fmt.Sprintf("%s%d%d", s, i, j))
			}
			return n
		}
		steps = append(steps,
			sendBatch("large", 4000, names("m")...),
			crowd(2+i),
			receive("large", 6),
			handled("DeleteMessage", "large", nil, names("m")[0], names("m")[1]),
			sendBatch("ledger.fifo", 800, names("x")...),
			receive("ledger.fifo", 1),
		)
	}
	return append(steps,
		backUp(),
		putAlarm("wide"),
		request("DeleteQueue", "scratch", nil),
		request("CreateQueue", "scratch", fields{"Attributes": fields{"DelaySeconds": "7"}}),
		send("scratch", "s7", 100, fields{"DelaySeconds": 800}),
		send("large", "l3", 50_000, nil),
		send("ledger.fifo", "f5", 200, group("g3", "d5")),
		request("PurgeQueue", "large", nil),
	)
}
