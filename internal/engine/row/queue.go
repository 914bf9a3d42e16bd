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

func (r *Queue) Encode(b Enc) []byte {
	b.byte(queueVersion)
	b.int(r.Deleted)
	if r.Deleted != 0 {
		return b
	}
	b.raw(r.Incarnation[:])
	b.uint(r.Space)
	b.int(r.Created)
	b.int(r.Modified)
	b.int(r.Purged)
	r.Attributes.encode(&b)
	b.uint(uint64(len(r.Tags)))
	for _, t := range r.Tags {
		b.string(t.Key)
		b.string(t.Value)
	}
	return b
}

// queueVersion is that of the queue row since queues have policies.
const queueVersion = 3

func DecodeQueue(value []byte) (r Queue, ok bool) {
	d := Dec{B: value}
	version := d.Version(queueVersion)
	if r.Deleted = d.Int(); r.Deleted != 0 {
		return r, d.Done()
	}
	r.Incarnation = d.ID()
	r.Space = d.Uint()
	r.Created, r.Modified, r.Purged = d.Int(), d.Int(), d.Int()
	r.Attributes.decode(&d, version)
	for n := d.Uint(); n > 0 && !d.Bad; n-- {
		r.Tags = append(r.Tags, Tag{Key: d.string(), Value: d.string()})
	}
	return r, d.Done()
}
