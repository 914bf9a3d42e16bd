package sqs

import (
	"context"
	"net/http"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/door/auth"
)

// Do carries out an action for a principal, with a body and an answer of the JSON protocol, within
// a request of another API. It asks for the same rights as a request of SQS. It is not for
// ReceiveMessage, whose poll may outlive its request. [V1-14]
func (h *Handler) Do(
	ctx context.Context, w http.ResponseWriter, r *http.Request, who auth.Principal, action string,
	body []byte,
) ([]byte, error) {
	op := operations[action]
	c := &call{Context: ctx, h: h, http: r, w: w, principal: who, op: op}
	defer c.release()
	req := op.newRequest()
	if err := sqswire.DecodeJSON(body, req); err != nil {
		return nil, err
	}
	if op.onQueue && !req.(interface{ Queue() sqswire.Opt[string] }).Queue().Set {
		return nil, sqswire.Errorf(sqswire.MissingParameter,
			"The request must contain the parameter QueueUrl.")
	}
	if err := c.permit(op, req); err != nil {
		return nil, err
	}
	resp, err := op.serve(c, req)
	if err != nil {
		return nil, err
	}
	return sqswire.AppendJSON(nil, resp.shape), nil
}
