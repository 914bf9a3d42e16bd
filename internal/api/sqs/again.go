package sqs

import (
	"encoding/binary"
	"strings"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/engine"
)

// Headers of the SDKs of AWS: the id of a call, the same in all its attempts, and which attempt a
// request is, such as "attempt=2; max=3". [AGAIN-1, AGAIN-3]
const (
	invocationHeader = "Amz-Sdk-Invocation-Id"
	attemptHeader    = "Amz-Sdk-Request"
)

// retriedHeader is in the answer to a send that an earlier attempt had stored. [AGAIN-7]
const retriedHeader = "Tenaq-Retried"

// invocationMax is how long the id of a call may be. The SDKs send 36 characters.
const invocationMax = 128

// An invocation collects what tells a call from others: the caller, the id of the call and all
// parameters of its action. It is nil if the request does not identify its call.
type invocation struct {
	parts []byte
	room  [256]byte // of parts, nearly always
}

// invocation returns what identifies the call of the request. Ids count only with a key: without
// one, it is not known that two requests have the same sender. [AGAIN-2]
func (c *call) invocation(action string) *invocation {
	id := c.http.Header.Get(invocationHeader)
	key, _, _, ok := c.principal.Key()
	if !ok || id == "" || len(id) > invocationMax {
		return nil
	}
	v := new(invocation)
	v.parts = v.room[:0]
	v.text(action, key, id)
	return v
}

func (v *invocation) text(parts ...string) {
	for _, s := range parts {
		v.parts = append(binary.AppendUvarint(v.parts, uint64(len(s))), s...)
	}
}

func (v *invocation) optional(parts ...sqswire.Opt[string]) {
	for _, o := range parts {
		if !o.Set {
			v.parts = append(v.parts, 0)
			continue
		}
		v.parts = append(v.parts, 1)
		v.text(o.Value)
	}
}

// add adds a message. The MD5 stands for its body, which it does not have to resist: two bodies
// with the same MD5 can only come from the same sender, under the same id.
func (v *invocation) add(id sqswire.Opt[string], m *sqswire.Outgoing, sum [16]byte) {
	if v == nil {
		return
	}
	v.optional(id, m.MessageGroupID, m.MessageDeduplicationID)
	v.parts = binary.AppendUvarint(v.parts, uint64(len(m.MessageBody.Value)))
	v.parts = append(v.parts, sum[:]...)
	if v.parts = append(v.parts, 0); m.DelaySeconds.Set {
		v.parts[len(v.parts)-1] = 1
		v.parts = binary.AppendVarint(v.parts, m.DelaySeconds.Value)
	}
	for _, attributes := range []sqswire.MessageAttributes{m.MessageAttributes,
		m.MessageSystemAttributes} {
		v.parts = binary.AppendUvarint(v.parts, uint64(len(attributes)))
		for i := range attributes {
			a := &attributes[i]
			v.text(a.Name, string(a.BinaryValue))
			v.optional(a.DataType, a.StringValue)
		}
	}
}

// call returns the call as the engine knows it. A request that does not say which attempt it is may
// be a later one.
func (v *invocation) call(c *call) engine.Invocation {
	if v == nil {
		return engine.Invocation{}
	}
	attempt, _, _ := strings.Cut(c.http.Header.Get(attemptHeader), ";")
	return engine.Invocation{Hash: engine.HashInvocation(v.parts),
		Later: strings.TrimSpace(attempt) != "attempt=1"}
}
