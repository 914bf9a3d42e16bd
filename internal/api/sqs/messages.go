package sqs

import (
	"strings"

	"tenaq/internal/api/handle"
	"tenaq/internal/api/intake"
	"tenaq/internal/api/refusal"
	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/engine"
)

func messageOperations() []*operation {
	return []*operation{
		onQueue("SendMessage", (*call).sendMessage).of(engine.ClassSend),
		onQueue("SendMessageBatch", (*call).sendMessageBatch).of(engine.ClassSend),
		onQueue("ReceiveMessage", (*call).receiveMessage).of(engine.ClassReceive),
		void("DeleteMessage", func(c *call, req *sqswire.DeleteMessageRequest) engine.Op {
			return &engine.DeleteMessage{Queue: c.queue(req.QueueURL),
				Handle: c.handle(req.ReceiptHandle)}
		}).of(engine.ClassDelete),
		onQueue("DeleteMessageBatch", (*call).deleteMessageBatch).of(engine.ClassDelete),
		void("ChangeMessageVisibility",
			func(c *call, req *sqswire.ChangeMessageVisibilityRequest) engine.Op {
				return &engine.ChangeMessageVisibility{
					Queue:   c.queue(req.QueueURL),
					Handle:  c.handle(req.ReceiptHandle),
					Timeout: engine.Int(req.VisibilityTimeout),
				}
			}).of(engine.ClassVisibility),
		onQueue("ChangeMessageVisibilityBatch", (*call).changeMessageVisibilityBatch).
			of(engine.ClassVisibility),
	}
}

// draft prepares a message for sending, on the goroutine of its request: checks and encoding that
// need no queue stay off the single writer. The answer to a successful send comes with it.
func (c *call) draft(
	id sqswire.Opt[string], m *sqswire.Outgoing, v *invocation,
) (engine.Draft, sqswire.Sent) {
	sum := sumOf(m.MessageBody.Value)
	v.add(id, m, sum)
	sent := sqswire.Sent{ // [SEND-7, MD5-1, MD5-5]
		MD5OfMessageBody:             hexOf(sum),
		MD5OfMessageAttributes:       sqswire.MD5OfAttributes(m.MessageAttributes),
		MD5OfMessageSystemAttributes: sqswire.MD5OfAttributes(m.MessageSystemAttributes),
	}
	return engine.NewDraft(engine.Entry{
		ID:         engine.Text(id),
		Body:       engine.Text(m.MessageBody),
		BodyMD5:    sum,
		Attributes: entryAttributes(m.MessageAttributes),
		System:     entryAttributes(m.MessageSystemAttributes),
		Delay:      engine.Int(m.DelaySeconds),
		Group:      engine.Text(m.MessageGroupID),
		Dedup:      engine.Text(m.MessageDeduplicationID),
		Sender:     c.principal.UserID(),                 // [RCV-13]
		Trace:      c.http.Header.Get("X-Amzn-Trace-Id"), // [MA-21]
	}), sent
}

func entryAttributes(attrs sqswire.MessageAttributes) []engine.EntryAttribute {
	if len(attrs) == 0 {
		return nil
	}
	out := make([]engine.EntryAttribute, len(attrs))
	for i := range attrs {
		a := &attrs[i]
		out[i] = engine.EntryAttribute{
			Name:      a.Name,
			Type:      engine.Text(a.DataType),
			String:    engine.Text(a.StringValue),
			Binary:    a.BinaryValue,
			HasBinary: a.BinaryValue != nil,
			HasList:   a.HasStringList || a.HasBinaryList,
		}
	}
	return out
}

// Headers with which a message can be followed: of a SendMessage request, to ask for it, and of its
// answer, with the mark to ask /v1 for the message by. [PEEK-9]
const (
	followHeader = "Tenaq-Follow"
	markHeader   = "Tenaq-Mark"
)

// duplicateHeader is in the answer to a send with duplicates, if the queue has a deduplication
// window of its own: true, or the ids of the entries of a batch. [EXT-32]
const duplicateHeader = "Tenaq-Duplicate"

func (c *call) sendMessage(req *sqswire.SendMessageRequest) (response, error) {
	invocation := c.invocation("SendMessage")
	draft, sent := c.draft(sqswire.Opt[string]{}, &req.Outgoing, invocation)
	op := &engine.SendMessage{Queue: c.queue(req.QueueURL), Draft: draft,
		Follow: c.http.Header.Get(followHeader) != "", Call: invocation.call(c)}
	if err := c.do(op); err != nil {
		return response{}, err
	}
	if mark := op.Sent.Mark; mark != "" {
		c.w.Header().Set(markHeader, mark)
	}
	if op.Sent.Told {
		c.w.Header().Set(duplicateHeader, "true")
	}
	if op.Sent.Again {
		c.w.Header().Set(retriedHeader, "true")
	}
	stored(&sent, &op.Sent)
	return answer(&sqswire.SendMessageResponse{Sent: sent})
}

// stored adds to the answer of a send what the queue has made of the message. The checksums stay
// those of the request, even when it was a duplicate of another. [DEDUP-13, DEDUP-14, SEND-9]
func stored(answer *sqswire.Sent, s *engine.Sent) {
	answer.MessageID = s.ID.String()
	if s.Sequence != 0 {
		answer.SequenceNumber = s.Sequence.String()
	}
}

func (c *call) sendMessageBatch(req *sqswire.SendMessageBatchRequest) (response, error) {
	op := &engine.SendMessageBatch{
		Queue:  c.queue(req.QueueURL),
		Drafts: make([]engine.Draft, len(req.Entries)),
		Given:  req.Entries != nil,
	}
	sent, invocation := make([]sqswire.Sent, len(req.Entries)), c.invocation("SendMessageBatch")
	for i := range req.Entries {
		op.Drafts[i], sent[i] = c.draft(req.Entries[i].ID, &req.Entries[i].Outgoing, invocation)
	}
	op.Call = invocation.call(c)
	if err := c.do(op); err != nil {
		return response{}, err
	}
	resp := new(sqswire.SendMessageBatchResponse)
	var duplicates []string
	for i, s := range op.Sent {
		id := req.Entries[i].ID.Value
		if s.Told {
			duplicates = append(duplicates, id)
		}
		if s.Again {
			c.w.Header().Set(retriedHeader, "true")
		}
		if s.Err != nil {
			resp.Failed = append(resp.Failed, refusal.Of(s.Err).Entry(id))
			continue
		}
		stored(&sent[i], &s)
		resp.Successful = append(resp.Successful,
			sqswire.SendMessageBatchResultEntry{ID: id, Sent: sent[i]})
	}
	if len(duplicates) > 0 {
		c.w.Header().Set(duplicateHeader, strings.Join(duplicates, ","))
	}
	return answer(resp)
}

// handle checks the seal of a receipt handle. A wrong one is passed on as such: that the queue
// exists comes first. [ERR-11]
func (c *call) handle(text sqswire.Opt[string]) engine.Handle {
	sealed, ok := c.h.cfg.Sealer.Open(text.Value)
	return engine.Handle{
		Text:        text.Value,
		Valid:       ok,
		Incarnation: sealed.Incarnation,
		Space:       sealed.Space,
		Seq:         sealed.Seq,
		Generation:  sealed.Generation,
		Received:    sealed.Received,
	}
}

func (c *call) deleteMessageBatch(req *sqswire.DeleteMessageBatchRequest) (response, error) {
	op := &engine.DeleteMessageBatch{Queue: c.queue(req.QueueURL), Given: req.Entries != nil,
		Entries: make([]engine.DeleteEntry, 0, len(req.Entries))}
	ids := make([]string, len(req.Entries))
	for i := range req.Entries {
		entry := &req.Entries[i]
		ids[i] = entry.ID.Value
		op.Entries = append(op.Entries,
			engine.DeleteEntry{ID: engine.Text(entry.ID), Handle: c.handle(entry.ReceiptHandle)})
	}
	if err := c.do(op); err != nil {
		return response{}, err
	}
	resp := new(sqswire.DeleteMessageBatchResponse)
	resp.Successful, resp.Failed = outcomes(ids, op.Outcomes)
	return answer(resp)
}

func (c *call) changeMessageVisibilityBatch(
	req *sqswire.ChangeMessageVisibilityBatchRequest,
) (response, error) {
	op := &engine.ChangeMessageVisibilityBatch{Queue: c.queue(req.QueueURL),
		Given: req.Entries != nil}
	ids := make([]string, len(req.Entries))
	for i := range req.Entries {
		entry := &req.Entries[i]
		ids[i] = entry.ID.Value
		op.Entries = append(op.Entries, engine.VisibilityEntry{
			ID:      engine.Text(entry.ID),
			Handle:  c.handle(entry.ReceiptHandle),
			Timeout: engine.Int(entry.VisibilityTimeout),
		})
	}
	if err := c.do(op); err != nil {
		return response{}, err
	}
	resp := new(sqswire.ChangeMessageVisibilityBatchResponse)
	resp.Successful, resp.Failed = outcomes(ids, op.Outcomes)
	return answer(resp)
}

// outcomes divides the entries of a batch, keeping their order. [BATCH-11, BATCH-12]
func outcomes(
	ids []string, errs []*engine.Error,
) (ok []sqswire.BatchResultEntry, failed []sqswire.BatchResultErrorEntry) {
	for i, err := range errs {
		if err != nil {
			failed = append(failed, refusal.Of(err).Entry(ids[i]))
		} else {
			ok = append(ok, sqswire.BatchResultEntry{ID: ids[i]})
		}
	}
	return ok, failed
}

func (c *call) receiveMessage(req *sqswire.ReceiveMessageRequest) (response, error) {
	wanted := wantedAttributes{system: append(req.AttributeNames,
		req.MessageSystemAttributeNames...), user: req.MessageAttributeNames}
	c.room = c.h.cfg.Intake.Answers.Hold(c.principal.Account())
	op := &engine.ReceiveMessage{
		Queue:      c.queue(req.QueueURL),
		Max:        engine.Int(req.MaxNumberOfMessages),
		Visibility: engine.Int(req.VisibilityTimeout),
		Wait:       engine.Int(req.WaitTimeSeconds),
		AttemptID:  engine.Text(req.ReceiveRequestAttemptID),
		System:     wanted.system,
	}
	if err := c.poll(op, &wanted); err != nil {
		return response{}, err
	}
	return c.deliver(&op.Received, &wanted), nil
}

// deliver answers a receive, whose room the writer has taken with its messages. It empties res,
// which would otherwise be kept while a client reads.
func (c *call) deliver(res *engine.Received, wanted *wantedAttributes) response {
	resp := response{room: c.room}
	messages := make([]sqswire.Message, 0, len(res.Messages))
	for d, content := range c.h.cfg.Broker.ReadDelivered(res) {
		messages = append(messages, c.message(d, &content, res.Incarnation, wanted))
		resp.size += len(content.Body)
	}
	*res = engine.Received{}
	if resp.size += resp.size / 8; resp.size <= intake.Small {
		resp.size = 0 // there are buffers for that
	}
	resp.shape = &sqswire.ReceiveMessageResponse{Messages: messages}
	return resp
}

// An answerRoom is the room of a receive as the broker sees it, in bytes of messages. [RCV-24]
type answerRoom struct{ *intake.Holding }

func (r answerRoom) Reserve() int64 {
	return r.Holding.Reserve(intake.AnswerMost) / intake.AnswerCost
}
func (r answerRoom) Keep(size int64) { r.Set(size * intake.AnswerCost) }

// message puts together what a client gets to see of a delivered message. [RCV-4]
func (c *call) message(
	d *engine.Delivery, content *engine.Content, incarnation [16]byte, wanted *wantedAttributes,
) sqswire.Message {
	var buf [128]byte
	m := sqswire.Message{
		MessageID: d.ID.String(),
		ReceiptHandle: string(c.h.cfg.Sealer.AppendSeal(buf[:0], handle.Handle{
			Incarnation: incarnation,
			Space:       d.Space,
			Seq:         d.Seq,
			Generation:  d.Generation,
			Received:    d.Received,
		})),
		Body:              content.Body,
		MD5OfBody:         hexOf(content.BodyMD5),
		Attributes:        wanted.systemOf(d, content),
		MessageAttributes: wanted.userOf(content),
	}
	m.MD5OfMessageAttributes = sqswire.MD5OfAttributes(m.MessageAttributes) // [MD5-6, MD5-7]
	return m
}
