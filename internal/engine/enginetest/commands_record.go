package enginetest

import (
	"fmt"
	"strings"
	"time"

	"tenaq/internal/engine"
)

// recordWrite reads what a write of a record says. The version in if is an alias, v1 and so on;
// any other text is a version that no record has.
func (p *Player) recordWrite(a *args) (account, key string, version uint64) {
	account, key = a.account(), a.text("k").Value
	if t := a.text("if"); t.Set {
		version = 1
		for v, alias := range p.versions { // order does not matter: aliases differ
			if alias == t.Value {
				version = v
			}
		}
	}
	return account, key, version
}

func (p *Player) recordPut(a *args, _ []string) (string, error) {
	op := &engine.PutRecord{}
	op.Account, op.Key, op.If = p.recordWrite(a)
	op.Value, op.TTL = []byte(a.text("v").Value), a.millis("ttl", 0)
	if q, set := a.queue(); set {
		op.Message = &engine.DeleteMessage{Queue: q, Handle: p.handle(a.text("r"))}
	}
	if err := a.done(); err != nil {
		return "", err
	}
	refusal, err := p.do(op)
	if refusal != "" || err != nil {
		return refusal, err
	}
	if !op.Conflict {
		if op.Record.Version <= p.lastVersion {
			return "", fmt.Errorf("version %d after %d", op.Record.Version, p.lastVersion)
		}
		p.lastVersion = op.Record.Version
		p.versions[op.Record.Version] = fmt.Sprintf("v%d", len(p.versions)+1)
	}
	answer := p.recordAnswer(&op.Record, op.Conflict)
	if op.Refused != nil {
		answer += ", kept: " + op.Refused.Error()
	}
	return answer, nil
}

func (p *Player) recordDelete(a *args, _ []string) (string, error) {
	op := &engine.DeleteRecord{}
	op.Account, op.Key, op.If = p.recordWrite(a)
	if refusal, err := p.simple(a, op); refusal != "" || err != nil || !op.Conflict {
		return refusal, err
	}
	return p.recordAnswer(&op.Record, true), nil
}

func (p *Player) recordGet(a *args, _ []string) (string, error) {
	op := &engine.GetRecord{Account: a.account(), Key: a.text("k").Value}
	if refusal, err := p.simple(a, op); refusal != "" || err != nil {
		return refusal, err
	}
	return p.recordAnswer(&op.Record, false), nil
}

// recordList lists all records page by page, of at most max records or bytes of values each.
func (p *Player) recordList(a *args, _ []string) (string, error) {
	op := &engine.ListRecords{Account: a.account(), Prefix: a.text("prefix").Value,
		After: a.text("after").Value, Max: int(a.numberOr("max", 1000)),
		Bytes: a.numberOr("bytes", 1<<20)}
	var b strings.Builder
	for {
		if refusal, err := p.simple(a, op); refusal != "" || err != nil {
			return refusal, err
		}
		for i := range op.Records {
			fmt.Fprintln(&b, p.recordAnswer(&op.Records[i], false))
		}
		if op.After = op.Next; op.Next == "" {
			break
		}
		fmt.Fprintln(&b, "--")
	}
	if b.Len() == 0 {
		return "nothing", nil
	}
	return b.String(), nil
}

// recordSweep removes expired records, max of them at a time, and answers how many that were.
func (p *Player) recordSweep(a *args, _ []string) (string, error) {
	op := &engine.SweepRecords{Max: int(a.numberOr("max", 100))}
	if err := a.done(); err != nil {
		return "", err
	}
	// as for sweep
	defer func(count uint64) { p.count = count + 1 }(p.count)
	for removed := 0; ; {
		if _, err := p.do(op); err != nil {
			return "", err
		}
		if removed += op.Removed; !op.More {
			return fmt.Sprintf("%d removed", removed), nil
		}
	}
}

// recordAnswer describes a record.
func (p *Player) recordAnswer(r *engine.Record, conflict bool) string {
	text := ""
	if conflict {
		text = "conflict with "
	}
	if r.Version == 0 {
		return text + "nothing"
	}
	text += fmt.Sprintf("%s %s=%s age=%v", p.versions[r.Version], printable(r.Key),
		printable(string(r.Value)), time.Duration(r.Age)*time.Millisecond)
	if r.TTL != 0 {
		text += fmt.Sprintf(" ttl=%v", time.Duration(r.TTL)*time.Millisecond)
	}
	return text
}

// numberOr reads a number that may be missing.
func (a *args) numberOr(key string, def int64) int64 {
	if n := a.number(key); n.Set {
		return n.Value
	}
	return def
}
