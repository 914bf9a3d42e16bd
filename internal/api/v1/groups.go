package v1

import "tenaq/internal/engine"

// A groupList is a page of GET /v1/queues/{queue}/groups.
type groupList struct {
	Groups []group `json:"groups"`
	Next   string  `json:"next,omitempty" doc:"after of the next page; absent on the last"`
}

// A group is a message group of a FIFO queue.
type group struct {
	Group     string              `json:"group"`
	State     engine.MessageState `json:"state" enum:"visible,in_flight,delayed,held" doc:"of its first message; the group is locked unless that is visible; held: dead letters hold the group"`
	VisibleAt *string             `json:"visibleAt" doc:"when its first message is or was receivable; since when it is held"`
	WaitMS    int64               `json:"waitMs" doc:"until then, by the clock of the server"`
	Messages  uint64              `json:"messages"`

	// its first message; absent if a held group has none
	ID       string  `json:"messageId,omitempty"`
	Sent     *string `json:"sent"`
	Receives uint32  `json:"receiveCount"`
	Lineage  string  `json:"lineageId,omitempty"`

	HeldBy []holder `json:"heldBy,omitempty" doc:"the dead letters that hold the group, in its order"`
}

// A holder is a dead letter that holds a group.
type holder struct {
	Queue   string `json:"queue" doc:"the dead-letter queue that it is in"`
	ID      string `json:"messageId"`
	Lineage string `json:"lineageId"`
}

type groupsIn struct {
	Queue string `path:"queue"`
	Group string `query:"group" doc:"only this group"`
	Only  string `query:"only" enum:"locked"`
	After string `query:"after" doc:"next of the page before"`
	Limit int    `query:"limit" range:"1,100" default:"50"`
}

// groups answers GET /v1/queues/{queue}/groups. [V1-10]
func (c *call) groups(in groupsIn) (list groupList, err error) {
	op := &engine.PeekGroups{Queue: c.queue(in.Queue), Group: in.Group, Locked: in.Only == "locked",
		After: in.After, Max: in.Limit}
	if err := c.do(op); err != nil {
		return list, err
	}
	list = groupList{Groups: []group{}, Next: op.Next}
	for _, g := range op.Groups {
		shown := group{Group: g.Group, State: g.State, VisibleAt: timeText(g.VisibleAt),
			WaitMS: g.Wait, Messages: g.Messages}
		if g.Messages > 0 {
			shown.ID, shown.Lineage = g.First.ID.String(), g.First.Lineage.String()
			shown.Sent, shown.Receives = timeText(g.First.Sent), g.First.Receives
		}
		for _, h := range g.HeldBy {
			shown.HeldBy = append(shown.HeldBy, holder{h.Queue.Name, h.ID.String(),
				h.Lineage.String()})
		}
		list.Groups = append(list.Groups, shown)
	}
	return list, nil
}

type releaseIn struct {
	Queue string `path:"queue"`
	Group string `json:"group"`
}

// A released is the answer to POST /v1/queues/{queue}/groups/release.
type released struct {
	Released int `json:"released" doc:"messages that are receivable now and were in flight"`
	Holds    int `json:"deadLetters,omitempty" doc:"dead letters that held the group until now"`
}

// releaseGroup answers POST /v1/queues/{queue}/groups/release. [V1-11]
func (c *call) releaseGroup(in releaseIn) (released, error) {
	op := &engine.ReleaseGroup{Queue: c.queue(in.Queue), Group: in.Group}
	err := c.do(op)
	return released{op.Released, op.Holds}, err
}
