package row

import "tenaq/internal/engine/key"

// The rows of a fair queue. They are an index beside fresh and due, and the messages need none of
// them: without the tag they go, and nothing is lost. [EXT-43]
const (
	KindFair    Kind = 0x18
	KindTenant  Kind = 0x19
	KindWaiting Kind = 0x1a
	KindTurn    Kind = 0x1b
)

// Names of tenants that are no group ids.
const (
	// TenantNone has the messages without a group id. Each of them is a tenant of its own, so the
	// row counts and has no turn. [EXT-38]
	TenantNone = ""

	// TenantBefore has the messages that were there before the queue was fair. [EXT-42]
	TenantBefore = "\x00"
)

// FairSpan covers everything that only a fair queue has.
func FairSpan(space uint64) Span {
	return Span{Lo: SpaceKey(space, KindFair), Hi: SpaceKey(space, KindTurn+1)}
}

// A Fair says from where on the index of a fair queue has its messages.
type Fair struct {
	From    uint64 // messages before it were there before
	Due     Pos    // of them, those in due up to here have no waiting row
	Before  uint64 // how many available ones have no waiting row
	Serves  uint64 // deliveries, and beginnings of tenants, which order those of one millisecond
	TurnLow Pos    // low-water key of the turns
}

func FairKey(space uint64) []byte { return SpaceKey(space, KindFair) }

func (r *Fair) Encode(b []byte) []byte { return encode(b, r, (*Fair).parts) }

func (r *Fair) parts(c *Codec) {
	c.Version(Version)
	c.Uint(&r.From)
	c.pos(&r.Due)
	c.Uint(&r.Before, &r.Serves)
	c.pos(&r.TurnLow)
}

func DecodeFair(value []byte) (r Fair, ok bool) {
	ok = decode(value, &r, (*Fair).parts)
	return r, ok && r.From > 0
}

// A Tenant counts the messages of a group, as the counters of the state see them.
type Tenant struct {
	Waiting, InFlight, Delayed uint64

	Served Pos // its last delivery, or how it began: a time, and a number from Fair.Serves
	Low    Pos // low-water key of its waiting rows
	Front  Front
}

// A Front says what is known of the first waiting row of a tenant.
type Front byte

const (
	FrontUnknown Front = 0 // it has to be looked up, if there is one
	FrontFresh   Front = 1 // it is at Low, and its message was never handed out
	FrontPlaced  Front = 2 // it is at Low, and its message has a place in due
)

func TenantKey(space uint64, name string) []byte {
	return key.AppendString(SpaceKey(space, KindTenant), name)
}

// Empty reports whether the tenant has no messages, and so no row.
func (r *Tenant) Empty() bool { return r.Waiting+r.InFlight+r.Delayed == 0 }

// Turn is where a tenant with waiting messages stands among the others.
func (r *Tenant) Turn() Pos { return TurnAt(r.InFlight, r.Served) }

func (r *Tenant) Encode(b []byte) []byte { return encode(b, r, (*Tenant).parts) }

func (r *Tenant) parts(c *Codec) {
	c.Version(Version)
	c.Uint(&r.Waiting, &r.InFlight, &r.Delayed)
	c.pos(&r.Served, &r.Low)
	c.Byte((*byte)(&r.Front))
}

func DecodeTenant(value []byte) (r Tenant, ok bool) {
	ok = decode(value, &r, (*Tenant).parts)
	return r, ok && !r.Empty() && r.Front <= FrontPlaced
}

// The parts of the time in the key of a turn.
const (
	turnBits    = 44 // of the time of the last delivery, which end in the year 2527
	turnTimeMax = 1<<turnBits - 1
	turnMax     = 1<<(63-turnBits) - 1 // messages in flight
)

// TurnAt is where a tenant stands that has so many messages in flight and was served then: those
// with fewer in flight come first, and of these the one that was served longest ago. [EXT-37]
func TurnAt(inFlight uint64, served Pos) Pos {
	return Pos{At: int64(min(inFlight, turnMax))<<turnBits | min(max(served.At, 0), turnTimeMax),
		Seq: served.Seq}
}

// TurnRows holds the tenants that have waiting messages, in the order in which receives serve them.
var TurnRows = Index[string]{Name: "turn", Kind: KindTurn, Read: DecodeHead}

// WaitingKey is that of an available message: by the time at which it became available.
func WaitingKey(space uint64, tenant string, p Pos) []byte {
	return appendPos(key.AppendString(SpaceKey(space, KindWaiting), tenant), p)
}

// WaitingSpan covers the waiting messages of a tenant from p on.
func WaitingSpan(space uint64, tenant string, p Pos) Span {
	return Span{
		Lo: WaitingKey(space, tenant, p),
		Hi: key.Next(key.AppendString(SpaceKey(space, KindWaiting), tenant)),
	}
}

// WaitingPos reads the place from the end of a key.
func WaitingPos(k []byte) Pos { return PosOf(k[max(len(k)-16, 0):]) }

// WaitingOf reads the name of the tenant from the key of a waiting row.
func WaitingOf(k []byte) (tenant string, ok bool) {
	tenant, rest, ok := key.String(k[min(SpacePrefixLen, len(k)):])
	return tenant, ok && len(rest) == 16
}

// A waiting row says whether the message has a place in due. Otherwise it was never handed out.
func EncodeWaiting(b []byte, placed bool) []byte {
	c := Codec{B: b}
	c.Version(Version)
	c.bool(&placed)
	return c.B
}

func DecodeWaiting(value []byte) (placed, ok bool) {
	c := Codec{B: value, Reading: true}
	c.Version(Version)
	c.bool(&placed)
	return placed, c.Done()
}

// NewFair returns the index of a queue whose messages were all there before, and the tenant that
// they form; false if there are none. The state has followed due up to now. [EXT-42]
func NewFair(st *State, now int64) (r Fair, before Tenant, some bool) {
	r = Fair{From: st.NextSeq, Due: Pos{At: now, Seq: st.NextSeq - 1},
		Before: uint64(st.Live - st.Delayed - st.InFlight), Serves: 1}
	before = Tenant{Waiting: r.Before, InFlight: uint64(st.InFlight), Delayed: uint64(st.Delayed),
		Served: Pos{Seq: r.Serves}}
	return r, before, !before.Empty()
}
