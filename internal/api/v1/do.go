package v1

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"tenaq/internal/door/auth"
)

// An SQS carries out actions of SQS. [V1-14]
type SQS func(
	ctx context.Context, w http.ResponseWriter, r *http.Request, who auth.Principal, action string,
	body []byte,
) (answer []byte, err error)

type doIn struct {
	Action string `path:"action" enum:"SendMessage,CreateQueue,DeleteQueue,PurgeQueue,SetQueueAttributes,TagQueue,UntagQueue"`
}

// doAction answers POST /v1/do/{action}: the body and the answer are those of the action in AWS
// JSON 1.0. [V1-14]
func (c *call) doAction(in doIn) (json.RawMessage, error) {
	if err := c.isJSON(); err != nil {
		return nil, err
	}
	answer, err := c.cfg.SQS(c, c.w, c.request, c.principal, in.Action, c.body)
	if err != nil {
		return nil, err
	}
	if len(answer) == 0 {
		answer = []byte("{}")
	}
	about, text := aboutDo(in.Action, c.body, answer)
	c.logAs(in.Action, about, text)
	return answer, nil
}

// aboutDo says what an action was about, from the members that it reads. Their names have one
// spelling. Bodies, attributes and tags are left out. [TASK-16]
func aboutDo(action string, body, answer []byte) (about, text string) {
	var asked, did map[string]json.RawMessage
	_ = json.Unmarshal(body, &asked) // the action has been carried out
	_ = json.Unmarshal(answer, &did)
	member := func(of map[string]json.RawMessage, name string) (value string) {
		_ = json.Unmarshal(of[name], &value)
		return value
	}
	if action == "CreateQueue" {
		about = member(asked, "QueueName")
	} else {
		url := member(asked, "QueueUrl")
		about = url[strings.LastIndex(url, "/")+1:]
	}
	if id := member(did, "MessageId"); id != "" {
		text = "message " + id
	}
	return about, text
}
