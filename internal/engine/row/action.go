package row

import "tenaq/internal/engine/key"

// ActionsKept is how many entries the action log has. An entry takes the place of the one that was
// made 1,000 entries earlier, so the log has no front that moves away from its first key.
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

func ActionKey(number uint64) []byte {
	return key.AppendUint64([]byte{FamilyAction}, number%ActionsKept)
}

func (a *Action) Encode(b []byte) []byte {
	c := Codec{B: b}
	a.parts(&c)
	return c.B
}

func (a *Action) parts(c *Codec) {
	c.Version(Version)
	c.Uint(&a.Number)
	c.Int(&a.At)
	c.string(&a.Account, &a.By, &a.Name, &a.About, &a.Text)
}

func DecodeAction(value []byte) (a Action, ok bool) {
	c := Codec{B: value, Reading: true}
	a.parts(&c)
	return a, c.Done() && a.Number > 0
}
