package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/dedupid"
	"tenaq/internal/work/sqslimits"
)

// What a replay sends: a new message with the lineage of an old one. [REPLAY-7 to REPLAY-9]

// sendAgain sends a past message again. Random is what its id is made of.
func (e *Engine) sendAgain(to *queue, p *pastMessage, missing bool, random MessageID) {
	id, _ := e.sys.IDKey.New(random, row.Place{Space: to.row.Space, Seq: to.st.NextSeq})
	m := &message{Meta: row.NewMeta(to.st.NextSeq, id, e.now, p.size), hasMeta: true}
	m.Lineage, m.Meta.Generation, m.Group = p.Meta.Lineage, p.generation, p.Group
	m.Away, m.Replayed = true, true
	// The lineage may have been delivered where this history does not reach, and the time is a
	// larger number than of any delivery there. [ID-4]
	m.Fence = max(p.fence, uint64(max(e.now, 0)))
	m.Dedup = p.Dedup
	var told *row.Story
	if missing { // it is a redrive of what failed
		m.FirstSent, m.Redrives, told = p.FirstSent, p.Redrives+1, p.Story
	} else if to.fifo() {
		m.Dedup = dedupOf(p.Dedup, p.was, p.generation)
	}
	if delay := to.row.Attributes.Delay(); delay > 0 && !to.fifo() {
		m.Flags |= row.FlagScheduled
		m.Delivery = row.Delivery{At: e.now + delay, Kind: row.DueDelayed}
	}
	to.st.NextSeq++
	if told != nil {
		told.Generation = 0
		e.setStory(to, m, told)
	}
	e.enter(to, m, content{p.content.EncodeHead(), p.content.Body, levelIn(p.content.Attributes)})
	e.tally(to).Arrived.Add(1)
	e.stir(to)
}

// dedupOf is the deduplication id of a message in a generation, made of that in an earlier one. The
// same work and generation always have the same one. [REPLAY-8]
func dedupOf(dedup string, was, generation uint64) string {
	base := dedup
	if was > 0 {
		base = strings.TrimSuffix(dedup, "#"+strconv.FormatUint(was, 10))
	}
	return dedupid.Of(base + "#" + strconv.FormatUint(generation, 10))
}

// writtenGeneration is the generation that a sender has written into a message; zero for none.
func writtenGeneration(attributes []Attribute) uint64 {
	n, err := strconv.ParseUint(written(attributes, "generation"), 10, 64)
	if err != nil || n > math.MaxInt32 {
		return 0
	}
	return n
}

// endedFields are fields of the attribute tenaq that are about attempts that are over, and of no
// use to a new generation.
var endedFields = []string{"redrives", "strikes", "first-sent", "died", "reason", "attempts",
	"source", "poison"}

// prepare makes a past message what it is sent as: in its generation, and with an attribute tenaq
// that names the work, so that consumers that do work once know it. A message without room for the
// attribute, or with one that cannot be read, is sent as it was. [REPLAY-9]
func (r *replaying) prepare(m *pastMessage) {
	if m.size = m.Size; !r.missing {
		m.generation++
	}
	attributes := m.content.Attributes
	i := slices.IndexFunc(attributes, func(a Attribute) bool { return a.Name == trailAttribute })
	fields := make(url.Values)
	switch {
	case i < 0 && len(attributes) >= sqslimits.AttributesMax:
		return
	case i >= 0:
		if row.IsBinary(attributes[i].Type) {
			return
		}
		var err error
		fields, err = url.ParseQuery(attributes[i].String)
		if err != nil || fields.Get("v") != "1" {
			return
		}
	}
	fields.Del("v")
	if fields.Get("key")+fields.Get("lineage") == "" && m.Dedup != "" &&
		m.Dedup != bodyHash(m.content.Body) {
		fields.Set("key", m.Dedup) // as a worker names it
	}
	if fields.Get("lineage") == "" {
		fields.Set("lineage", MessageID(m.Meta.Lineage).String())
	}
	if !r.missing {
		for _, name := range endedFields {
			fields.Del(name)
		}
		fields.Set("generation", strconv.FormatUint(m.generation, 10))
	}
	value := trailVersion + "&" + fields.Encode()
	if i < 0 {
		m.content.Attributes = append(slices.Clip(attributes),
			Attribute{Name: trailAttribute, Type: "String", String: value})
		m.size += int64(len(trailAttribute) + len("String") + len(value))
		return
	}
	m.size += int64(len(value) - len(attributes[i].String))
	m.content.Attributes = slices.Clone(attributes)
	m.content.Attributes[i].String = value
}

// bodyHash is the deduplication id that a queue makes of a body. [DEDUP-2]
func bodyHash(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}
