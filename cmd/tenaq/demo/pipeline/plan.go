package pipeline

import (
	"fmt"

	"tenaq/cmd/tenaq/demo/stage"
)

// A file is one file of the batch, and what happens to it.
type file struct {
	ID    string
	Group string
	Kind  kind
	Death death
	Share int // percent of the download after which a process dies
}

// A kind is what is special about a file.
type kind string

const (
	plain     kind = ""
	damaged   kind = "damaged"   // its checksum is never right
	withdrawn kind = "withdrawn" // it will never be there
	notYet    kind = "not yet"   // it is not there at first
	together  kind = "together"  // its download goes on when that of the other one has begun
)

// A death says when a process that works on a file dies, once.
type death string // for people

const (
	none          death = ""
	beforeSend    death = "producer, after registering and before sending"
	beforeClaim   death = "worker, after the receive and before the claim"
	amidWorker    death = "worker, while its task downloads"
	amidTask      death = "task, while it downloads"
	afterWrite    death = "task, after writing and before its exit"
	afterComplete death = "worker, after the completion and before the delete"
)

// points are the reports at which these processes die. The source reports the middle of a download.
var points = map[death]string{
	beforeSend: pointSending, beforeClaim: stage.Received, afterWrite: pointWrote,
	afterComplete: pointCompleted, amidWorker: string(amidWorker), amidTask: string(amidTask),
}

// deaths plans the deaths of the files.
func deaths(files []file) (all []stage.Death) {
	for _, f := range files {
		if f.Death != none {
			all = append(all, stage.Death{
				Point: points[f.Death], Key: f.ID, Why: string(f.Death),
				Task:  f.Death == amidTask || f.Death == afterWrite,
				Final: f.ID == fileUnswept,
			})
		}
	}
	return all
}

// orderedGroup is the group of files that stay in order. Every other file is a group of its own.
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

	fileLate   = fileBeforeClaim       // is sent again when SQS has forgotten it
	fileTraced = "balances-2026-02-03" // of the ordered group, whose task dies
)

// plan makes the plan of a seed. Each file has at most one accident, so that no good file uses up
// its attempts.
func plan(env *stage.Env) (files []file) {
	rng := env.RNG(1)
	add := func(id, group string, k kind, d death) {
		files = append(files, file{id, group, k, d, 10 + rng.IntN(80)})
	}
	for _, f := range []file{
		{ID: fileBeforeClaim, Death: beforeClaim}, {ID: fileAmidTask, Death: amidTask},
		{ID: fileAmidWorker, Death: amidWorker}, {ID: fileAfterWrite, Death: afterWrite},
		{ID: fileAfterComplete, Death: afterComplete}, {ID: fileNotYet, Kind: notYet},
		{ID: fileDamaged, Kind: damaged}, {ID: fileWithdrawn, Kind: withdrawn},
		{ID: "positions-2026-02-01", Kind: together}, {ID: "positions-2026-02-02", Kind: together},
		{ID: fileUnsent, Death: beforeSend}, {ID: fileUnswept, Death: beforeSend},
	} {
		add(f.ID, f.ID, f.Kind, f.Death)
	}
	for n := range env.Scale(3, 5) {
		add(fmt.Sprintf("balances-2026-02-%02d", n+1), orderedGroup, plain,
			map[int]death{1: amidWorker, 2: amidTask}[n])
	}
	ways := []death{beforeClaim, amidWorker, amidTask, afterWrite, afterComplete}
	for n := range env.Scale(4, 12) {
		d := none
		if n%3 > 0 {
			d = ways[rng.IntN(len(ways))]
		}
		id := fmt.Sprintf("trades-2026-02-%02d", n+1)
		add(id, id, plain, d)
	}
	return files
}

// fates is how many files are to be completed, and how many are to fail.
func fates(files []file) (completed, failed int) {
	failed = stage.Count(files, func(f file) bool {
		return f.Kind == damaged || f.Kind == withdrawn
	})
	return len(files) - failed, failed
}
