package v1

import (
	"cmp"
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
	about, text := aboutDo(c.body, answer)
	return answer, c.logAs(in.Action, about, text)
}

// aboutDo says what an action was about. Bodies, attributes and tags are left out. [TASK-16]
func aboutDo(body, answer []byte) (about, text string) {
	var asked struct{ QueueURL, QueueName string }
	var did struct{ MessageID string }
	_ = json.Unmarshal(body, &asked) // the action has been carried out
	_ = json.Unmarshal(answer, &did)
	about = cmp.Or(asked.QueueName, asked.QueueURL[strings.LastIndex(asked.QueueURL, "/")+1:])
	if did.MessageID != "" {
		text = "message " + did.MessageID
	}
	return about, text
}
