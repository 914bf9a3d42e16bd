package row

import "tenaq/internal/engine/key"

// ActionsKept is how many entries the action log has. A new entry takes the place of an old one, so
// the log has no front that moves away from its first key.
const ActionsKept = 1000

// An Action is an entry of the action log: what an operator did.
type Action struct {
	Number  uint64 // from 1
	At      int64
	Account string
	By      string // who did it
	Name    string // such as PauseTask
	About   string // a task or a queue
	Text    string // what else there is to say
}

// ActionKey is the key of the entry at a place, which is below ActionsKept.
func ActionKey(place uint64) []byte { return key.AppendUint64([]byte{FamilyAction}, place) }

// ActionPlace returns the place of an entry; false if there is no such place.
func ActionPlace(k []byte) (place uint64, ok bool) {
	place, rest, ok := key.Uint64(k[1:])
	return place, ok && len(rest) == 0 && place < ActionsKept
}

func (a *Action) Encode(b []byte) []byte { return encode(b, a, (*Action).parts) }

func (a *Action) parts(c *Codec) {
	c.Version(Version)
	c.Uint(&a.Number)
	c.Int(&a.At)
	c.string(&a.Account, &a.By, &a.Name, &a.About, &a.Text)
}

func DecodeAction(value []byte) (a Action, ok bool) {
	ok = decode(value, &a, (*Action).parts)
	return a, ok && a.Number > 0
}
