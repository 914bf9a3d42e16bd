package row

// Queue is the row of a queue that a purge keeps: identity, settings and tags.
type Queue struct {
	Incarnation [16]byte // new with every creation; handles are bound to it
	Space       uint64   // new with every creation and every purge
	Created     int64
	Modified    int64
	Purged      int64 // when it was last purged; zero for never
	Attributes  Attributes
	Tags        []Tag

	// Deleted is when the queue was deleted. Such a row is a grave: it blocks the name for a while.
	// A sweep or the next creation removes it. [QUEUE-18]
	Deleted int64
}

func (r *Queue) Encode(b []byte) []byte { return encode(b, r, (*Queue).parts) }

func (r *Queue) parts(c *Codec) {
	version := c.Version(queueVersion)
	if c.Int(&r.Deleted); r.Deleted != 0 {
		return
	}
	c.ID(&r.Incarnation)
	c.Uint(&r.Space)
	c.Int(&r.Created, &r.Modified, &r.Purged)
	r.Attributes.parts(c, version)
	list(c, &r.Tags, func(t *Tag) { c.string(&t.Key, &t.Value) })
}

// queueVersion is the version of the queue row since queues have policies.
const queueVersion = 3

func DecodeQueue(value []byte) (r Queue, ok bool) {
	ok = decode(value, &r, (*Queue).parts)
	return r, ok
}
