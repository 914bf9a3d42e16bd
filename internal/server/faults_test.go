package server

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"tenaq/internal/testing/proof"
	"testing"
	"time"
)

// faultPatience is how long a server may take for anything, on a machine that is busy with other
// things.
const faultPatience = 20 * time.Second

// A faultRun is the script against a server whose disk fails, and how that ended.
type faultRun struct {
	client  *scriptClient
	acked   int    // steps, those that were refused included
	cut     string // the step that was not answered, empty when all were
	refused []string
	wrong   []string // answers that are not those of a healthy server, and the like

	status int    // of the process
	said   string // the lines on standard error that are not of the log
	log    string // and those that are
	hit    string // the file of the operation that failed, empty when none did
	counts map[string]int

	noMount bool // it may not have a file system of its own
}

// A faultProcess is a server process whose disk fails.
type faultProcess struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	urls   chan string // closed when it says no more
	run    *faultRun
}

func startFaultProcess(c faultChild, run *faultRun) (*faultProcess, error) {
	spec, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	p := &faultProcess{cmd: exec.Command(os.Args[0]), urls: make(chan string, 2), run: run}
	if c.Room > 0 {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // what it mounts is its own
	}
	p.cmd.Env = append(os.Environ(), faultEnv+"="+string(spec))
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.listen(out)
	return p, nil
}

// listen reads what the process says on standard output.
func (p *faultProcess) listen(out io.Reader) {
	defer close(p.urls)
	in := bufio.NewScanner(out)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		switch word, rest, _ := strings.Cut(in.Text(), " "); word {
		case "url":
			p.urls <- rest
		case "no":
			p.run.noMount = true
		case "hit":
			p.run.hit = rest
		case "counts":
			_ = json.Unmarshal([]byte(rest), &p.run.counts)
		}
	}
}

var errServerEnded = errors.New("the server has ended")

// url waits for the address of the next server of the process.
func (p *faultProcess) url() (string, error) {
	select {
	case url, ok := <-p.urls:
		if !ok {
			return "", errServerEnded
		}
		return url, nil
	case <-time.After(faultPatience):
		return "", errors.New("the server does not start")
	}
}

// wait waits for the end of the process. One that does not end is asked where it hangs.
func (p *faultProcess) wait() {
	hangs := time.AfterFunc(faultPatience, func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) })
	for range p.urls { // until its standard output is closed
	}
	_ = p.cmd.Wait()
	if !hangs.Stop() {
		p.run.wrong = append(p.run.wrong, "the process does not end")
	}
	p.run.status = p.cmd.ProcessState.ExitCode()
	var said, log []string
	for line := range strings.Lines(p.stderr.String()) {
		if strings.HasPrefix(line, "time=") {
			log = append(log, line)
		} else {
			said = append(said, line)
		}
	}
	p.run.said, p.run.log = strings.Join(said, ""), strings.Join(log, "")
}

// try goes through the script against a server whose disk fails.
func (r *reference) try(c faultChild) (*faultRun, error) {
	run := &faultRun{client: newScriptClient("")}
	p, err := startFaultProcess(c, run)
	if err != nil {
		return nil, err
	}
	run.client.restart = func() (string, error) {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return "", err
		}
		return p.url()
	}
	if run.client.url, err = p.url(); err == nil {
		r.goThrough(run)
	}
	if err == nil && run.cut == "" {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	p.wait()
	if run.client.poll != nil && <-run.client.poll == nil && run.cut != "" {
		run.wrong = append(run.wrong, "a receive that waited was answered")
	}
	return run, nil
}

// goThrough asks one step after the other, until one is not answered.
func (r *reference) goThrough(run *faultRun) {
	for i, step := range r.steps {
		answer, err := step.do(run.client)
		var no *refusal
		switch {
		case errors.As(err, &no) && step.refusable && no.status >= 500 && len(no.body) > 20:
			run.refused = append(run.refused, step.name)
		case err != nil && step.refusable && step.name == "backup" && run.client.answers():
			run.refused = append(run.refused, step.name) // it was cut off, and the server goes on
		case errors.As(err, &no) && no.status < 500:
			run.wrong = append(run.wrong, fmt.Sprintf("%s is answered %v", step.name, err))
			fallthrough
		case err != nil:
			run.cut = step.name
			return
		case answer != r.answers[i]:
			run.wrong = append(run.wrong, fmt.Sprintf("%s is answered %q, and %q by a healthy server", step.name, answer, r.answers[i]))
		}
		run.acked++
	}
}

// answers says whether the server still does.
func (c *scriptClient) answers() bool { return c.sqs("ListQueues", fields{}, nil) == nil }

// check returns what is wrong with how a run ended, and in a word how it did.
func (f fault) check(run *faultRun) (outcome string, wrong []string) {
	wrong = f.checkEnd(run)
	op, file, _ := f.parts()
	switch {
	case run.hit == "":
		if run.status != 0 || len(run.refused) > 0 {
			wrong = append(wrong, fmt.Sprintf("nothing has failed, and status %d, refused %v", run.status, run.refused))
		}
		return "not reached", wrong
	case run.status != 0:
		return fmt.Sprintf("ended with status %d", run.status), wrong
	case len(run.refused) > 0:
		outcome = "refused"
	default:
		outcome = "without effect"
	}
	forBackup := reads[op] && slices.Equal(run.refused, []string{"backup"})
	if !harmless(op, file) && !forBackup && f.How != flipped {
		wrong = append(wrong, fmt.Sprintf("the %s of %s has failed, and it goes on", op, run.hit))
	}
	return outcome, wrong
}

// checkEnd returns what is wrong with the status of a process and its last words.
func (f fault) checkEnd(run *faultRun) (wrong []string) {
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	said := strings.TrimSuffix(run.said, "\n")
	switch {
	case run.status == 0:
		if said != "" {
			note("it says %q and exits with status 0", said)
		}
		if run.cut != "" {
			note("%s was not answered, and it exits with status 0", run.cut)
		}
	case !strings.HasPrefix(said, "tenaq: ") || strings.Contains(said, "\n"):
		note("it ends with status %d and no single sentence: %.4000s", run.status, said)
	case f.How == flipped:
		if run.status != 6 || !strings.Contains(said, "damaged") || !strings.Contains(said, "restore a backup") || !strings.HasSuffix(said, "tenaq salvage --to NEW") {
			note("it does not say that the store is damaged, but ends with status %d: %s", run.status, said)
		}
	case run.status != 7:
		note("it ends with status %d, want 7: %s", run.status, said)
	case f.Errno == syscall.ENOSPC && (!strings.Contains(said, "full") || !strings.Contains(said, "free space on")):
		note("it does not say that the disk is full: %s", said)
	case !strings.HasSuffix(said, "start again") && !strings.HasSuffix(said, "start again, which recovers everything confirmed"):
		note("it does not say what to do: %s", said)
	}
	return wrong
}

// harmless says whether a server may continue when an operation fails: what is removed only makes
// room, what is allocated ahead or opened once more only makes it faster, what was read is read, a
// table or manifest is measured when it is removed, and a checkpoint belongs to the backup alone.
func harmless(op, file string) bool {
	switch op {
	case "remove", "remove all", "preallocate", "close behind reading":
		return true
	case "open", "stat":
		return file == "checkpoint" || file == "table" || file == "name alone"
	}
	return file == "checkpoint"
}

// faultsAt returns the faults that are tried at an operation.
func faultsAt(place string, nth int) []fault {
	at := fault{Place: place, Nth: nth, How: notDone}
	op, _, ok := at.parts()
	if !ok {
		panic("no operation in " + place)
	}
	var all []fault
	add := func(errno syscall.Errno, how string) {
		for _, good := range []bool{false, true} {
			f := at
			f.Errno, f.How, f.Good = errno, how, good
			all = append(all, f)
		}
	}
	add(syscall.EIO, notDone)
	switch {
	case place == "read table": // what else is read is compared with the witness, or not used
		f := at
		f.How = flipped
		all = append(all, f)
	case reads[op]:
	case op == "write":
		add(syscall.ENOSPC, notDone)
		add(syscall.ENOSPC, half)
		add(syscall.EIO, half)
	case op == "sync", op == "rename":
		add(syscall.EIO, done)
		add(syscall.ENOSPC, notDone)
	case op != "close" && op != "close behind reading":
		add(syscall.ENOSPC, notDone)
	}
	return all
}

// If any operation of the file system fails, at any time, the server ends with one sentence and
// status 7, or continues if the failure does no harm. Acknowledged changes are there afterwards,
// changes in progress are there wholly or not at all, and nothing else is there.
// [DUR-6, DUR-12, DUR-13]
//
// Every operation on the store, the witness, the lock and the directories is in it, reads too. It
// runs a part of all faults, other ones each time; with TENAQ_EFFORT=long each at every operation.
// The flag -place='sync log' tries each at all operations of one place.
func TestFaultSweep(t *testing.T) {
	rng := rand.New(rand.NewPCG(proof.Seed(t), 31))
	r := theReference(t)
	dir := t.TempDir()
	healthy := r.mustBeHealthy(t, filepath.Join(dir, "healthy"))
	var all []fault
	operations := 0
	for _, place := range slices.Sorted(maps.Keys(healthy.counts)) {
		operations += healthy.counts[place]
		if *faultPlace != "" && place != *faultPlace {
			continue
		}
		for nth := range healthy.counts[place] {
			all = append(all, faultsAt(place, nth+1)...)
		}
	}
	for i := range all {
		all[i].Power, all[i].Kept, all[i].Seed = rng.IntN(4) > 0, []int{0, 0, 50, 100}[rng.IntN(4)], rng.Uint64()>>32
	}
	faults := spread(rng, all, faultTrials(len(all)))

	results := newFaultResults()
	began := time.Now()
	var wg sync.WaitGroup
	next := make(chan int)
	for range 2 {
		wg.Go(func() {
			for i := range next {
				r.sweep(t, filepath.Join(dir, fmt.Sprint(i)), faults[i], results)
			}
		})
	}
	for i := range faults {
		next <- i
	}
	close(next)
	wg.Wait()
	t.Logf("%d steps, %d operations of %d kinds; %d of %d faults in %v",
		len(r.steps), operations, len(healthy.counts), len(faults), len(all), time.Since(began).Round(time.Second))
	results.log(t)
	if n := results.outcomes["not reached"]; n > 5+len(faults)/10 { // background work is not the same in each run
		t.Errorf("%d of %d faults never happened", n, len(faults))
	}
}

var faultPlace = flag.String("place", "", "try faults at this place only, and all of them")

// faultTrials is how many faults of all are tried.
func faultTrials(all int) int {
	if *faultPlace != "" {
		return all
	}
	return proof.Count(map[bool]int{false: 24, true: 8}[proof.Race], 150, 150, all)
}

// spread takes n of all, evenly, beginning anywhere.
func spread(rng *rand.Rand, all []fault, n int) []fault {
	n = min(n, len(all))
	phase := rng.Float64()
	var some []fault
	for i := range n {
		some = append(some, all[int((float64(i)+phase)*float64(len(all))/float64(n))])
	}
	return some
}

// mustBeHealthy goes through the script with a process whose disk is well, and holds it to the
// reference.
func (r *reference) mustBeHealthy(t *testing.T, dir string) *faultRun {
	f := fault{Power: true}
	run, err := r.try(faultChild{Dir: dir, Fault: f})
	if err != nil {
		t.Fatal(err)
	}
	wrong := slices.Concat(run.wrong, r.judge(dir, run), r.judgeBackups(t.TempDir(), run.client))
	if run.status != 0 || run.cut != "" || len(run.refused) > 0 || len(wrong) > 0 || run.said != "" || len(run.counts) == 0 {
		t.Fatalf("a healthy disk: status %d, %q was cut off, refused %v, it says %s, wrong: %s\n%s", run.status, run.cut, run.refused, run.said, strings.Join(wrong, "\n"), run.log)
	}
	removeDir(t, dir)
	return run
}

// sweep tries one fault.
func (r *reference) sweep(t *testing.T, dir string, f fault, results *faultResults) {
	defer removeDir(t, dir)
	run, err := r.try(faultChild{Dir: filepath.Join(dir, "data"), Fault: f})
	if err != nil {
		t.Error(err)
		return
	}
	outcome, wrong := f.check(run)
	wrong = slices.Concat(run.wrong, wrong, r.judge(filepath.Join(dir, "data"), run))
	if _, file, _ := f.parts(); file == "checkpoint" {
		wrong = append(wrong, r.judgeBackups(dir, run.client)...)
	}
	if len(wrong) > 0 {
		t.Errorf("%s\n\thit %s at step %d, status %d, said %q\n\t%s\n%s", f, run.hit, run.acked, run.status, run.said,
			strings.ReplaceAll(strings.Join(wrong, "\n"), "\n", "\n\t"), run.log)
	}
	results.add(f, outcome, len(wrong) > 0)
}

// faultResults count what has become of the faults.
type faultResults struct {
	mu       sync.Mutex
	outcomes map[string]int
	places   map[string]map[string]int // outcomes by place
	errors   map[string]int
}

func newFaultResults() *faultResults {
	return &faultResults{outcomes: make(map[string]int), places: make(map[string]map[string]int), errors: make(map[string]int)}
}

func (r *faultResults) add(f fault, outcome string, wrong bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if wrong {
		outcome += ", WRONG"
	}
	r.outcomes[outcome]++
	if r.places[f.Place] == nil {
		r.places[f.Place] = make(map[string]int)
	}
	if f.Good {
		outcome += " for good"
	}
	r.places[f.Place][outcome]++
	what := f.How
	if f.How != flipped {
		what = fmt.Sprintf("%v, %s", f.Errno, f.How)
	}
	r.errors[what]++
}

func (r *faultResults) log(t *testing.T) {
	t.Logf("outcomes: %v", r.outcomes)
	t.Logf("errors: %v", r.errors)
	for _, place := range slices.SortedFunc(maps.Keys(r.places), func(a, b string) int { return cmp.Compare(a, b) }) {
		t.Logf("%-28s %v", place, r.places[place])
	}
}
