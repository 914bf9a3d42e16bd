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
	State     engine.MessageState `json:"state" enum:"visible,in_flight,delayed" doc:"of its first message; the group is locked unless that is visible"`
	VisibleAt *string             `json:"visibleAt" doc:"when its first message is or was receivable"`
	WaitMS    int64               `json:"waitMs" doc:"until then, by the clock of the server"`
	Messages  uint64              `json:"messages"`

	// its first message
	ID       string  `json:"messageId"`
	Sent     *string `json:"sent"`
	Receives uint32  `json:"receiveCount"`
	Lineage  string  `json:"lineageId"`
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
		list.Groups = append(list.Groups, group{
			Group: g.Group, State: g.State, VisibleAt: timeText(g.VisibleAt), WaitMS: g.Wait,
			Messages: g.Messages,
			ID:       g.First.ID.String(), Sent: timeText(g.First.Sent), Receives: g.First.Receives,
			Lineage: g.First.Lineage.String(),
		})
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
}

// releaseGroup answers POST /v1/queues/{queue}/groups/release. [V1-11]
func (c *call) releaseGroup(in releaseIn) (released, error) {
	op := &engine.ReleaseGroup{Queue: c.queue(in.Queue), Group: in.Group}
	err := c.do(op)
	return released{op.Released}, err
}
