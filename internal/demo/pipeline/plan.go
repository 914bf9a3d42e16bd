package pipeline

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
)

// A plan says which files there are and what happens to them.
type plan struct {
	Files  []file
	Deaths map[string]death // by the id of the file
}

// A file is one file of the batch.
type file struct {
	ID    string
	Kind  kind
	Group string
}

// A kind is what is special about a file.
type kind string

const (
	plain     kind = ""
	damaged   kind = "damaged"   // no key decrypts it
	withdrawn kind = "withdrawn" // it will never be there
	notYet    kind = "not yet"   // it is not there at first
	together  kind = "together"  // its download goes on when that of the other one has begun
	unsent    kind = "unsent"    // its producer dies before the send, and is run again
	unswept   kind = "unswept"   // its producer dies before the send, and a sweep finds it
)

// A death is when a process dies that has to do with a file, once.
type death struct {
	Moment moment
	Share  int // percent of the download, where it is one
}

// A moment is when somebody dies.
type moment string

const (
	beforeSend    moment = "producer, after registering and before sending"
	beforeClaim   moment = "worker, after the receive and before the claim"
	amidWorker    moment = "worker, while its task downloads"
	amidTask      moment = "task, while it downloads"
	afterWrite    moment = "task, after writing and before its exit"
	afterComplete moment = "worker, after the completion and before the delete"
)

// The group of the files that are to stay in order. Every other file is a group of its own.
const orderedGroup = "data-download-group"

// Files that have rows of their own.
const (
	fileBeforeClaim   = "accounts-2026-02-21"
	fileAmidTask      = "accounts-2026-02-22"
	fileAmidWorker    = "accounts-2026-02-23"
	fileAfterWrite    = "accounts-2026-02-24"
	fileAfterComplete = "accounts-2026-02-25"
	fileNotYet        = "accounts-2026-02-26"
	fileDamaged       = "accounts-2026-02-27"
	fileWithdrawn     = "accounts-2026-02-28"
	fileUnsent        = "cards-2026-02-27"
	fileUnswept       = "cards-2026-02-28"
)

// How many files there are besides, and to how many of the last kind something happens.
const (
	orderedFiles = 5
	randomFiles  = 12
	randomDeaths = 8
)

// newPlan makes the plan of a seed. Nothing happens twice to one file, so that none of the good ones can use its
// attempts up.
func newPlan(seed uint64) plan {
	rng := rand.New(rand.NewPCG(seed, 2))
	p := plan{Deaths: make(map[string]death)}
	add := func(id string, k kind, group string, deaths ...moment) {
		p.Files = append(p.Files, file{id, k, group})
		for _, m := range deaths {
			p.Deaths[id] = death{m, 10 + rng.IntN(80)}
		}
	}
	add(fileBeforeClaim, plain, fileBeforeClaim, beforeClaim)
	add(fileAmidTask, plain, fileAmidTask, amidTask)
	add(fileAmidWorker, plain, fileAmidWorker, amidWorker)
	add(fileAfterWrite, plain, fileAfterWrite, afterWrite)
	add(fileAfterComplete, plain, fileAfterComplete, afterComplete)
	add(fileNotYet, notYet, fileNotYet)
	add(fileDamaged, damaged, fileDamaged)
	add(fileWithdrawn, withdrawn, fileWithdrawn)
	for n := range orderedFiles {
		var deaths []moment
		if n == 1 {
			deaths = []moment{amidWorker}
		}
		add(fmt.Sprintf("balances-2026-02-%02d", n+1), plain, orderedGroup, deaths...)
	}
	for n := range 2 {
		id := fmt.Sprintf("positions-2026-02-%02d", n+1)
		add(id, together, id)
	}
	moments := []moment{beforeClaim, amidWorker, amidTask, afterWrite, afterComplete}
	unlucky := rng.Perm(randomFiles)[:randomDeaths]
	for n := range randomFiles {
		id := fmt.Sprintf("trades-2026-02-%02d", n+1)
		add(id, plain, id)
	}
	for _, n := range unlucky {
		p.Deaths[p.Files[len(p.Files)-randomFiles+n].ID] = death{moments[rng.IntN(len(moments))], rng.IntN(100)}
	}
	add(fileUnsent, unsent, fileUnsent, beforeSend)
	add(fileUnswept, unswept, fileUnswept, beforeSend)
	return p
}

// file finds a file by its id.
func (p *plan) file(id string) (file, bool) {
	for _, f := range p.Files {
		if f.ID == id {
			return f, true
		}
	}
	return file{}, false
}

// fates is how many files are to be completed, and how many are to fail.
func (p *plan) fates() (completed, failed int) {
	for _, f := range p.Files {
		if f.Kind == damaged || f.Kind == withdrawn {
			failed++
		} else {
			completed++
		}
	}
	return completed, failed
}

// inGroup returns the ids of the files of a group, in their order.
func (p *plan) inGroup(group string) (ids []string) {
	for _, f := range p.Files {
		if f.Group == group {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

// A request is the body of a message.
type request struct {
	FileID  string
	Entity  string
	BatchID int
}

// batchID is the batch in which the files come.
const batchID = 31

// body is the message of a file in a batch.
func (f file) body(batch int) string {
	const dated = len("-2026-02-28")
	text, err := json.Marshal(request{f.ID, f.ID[:len(f.ID)-dated], batch})
	if err != nil {
		panic(err) // strings and numbers can be written
	}
	return string(text)
}
