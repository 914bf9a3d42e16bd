package row

// Queue is what stays of a queue when it is purged: identity, settings and tags.
type Queue struct {
	Incarnation [16]byte // new with every creation; handles are bound to it
	Space       uint64   // new with every creation and every purge
	Created     int64
	Modified    int64
	Purged      int64 // when it was last purged; zero for never
	Attributes  Attributes
	Tags        []Tag

	// deleted is when the queue was deleted. Such a row is a grave: it only keeps the name blocked
	// for a while, and is cleared away by a sweep or the next creation. [QUEUE-18]
	Deleted int64
}

func (r *Queue) Encode(b []byte) []byte {
	c := Codec{B: b}
	r.parts(&c)
	return c.B
}

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

// queueVersion is that of the queue row since queues have policies.
const queueVersion = 3

func DecodeQueue(value []byte) (r Queue, ok bool) {
	c := Codec{B: value, Reading: true}
	r.parts(&c)
	return r, c.Done()
}
