package outbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/examples/outbox/studio"
	"tenaq/outbox"
)

// An upload is what a client asks the upload service for, and what happens to it.
type upload struct {
	Job, Video string
	Fate       fate // of the upload
	Worker     fate // of the first worker that has the job
}

// ordered reports whether the video is a film, whose versions have to be transcoded in their order.
func (u upload) ordered() bool { return strings.HasPrefix(u.Video, "film-") }

func (u upload) job() studio.Job { return studio.Job{ID: u.Job, Video: u.Video} }

func (u upload) message() outbox.Message {
	m := u.job().Message()
	if u.ordered() {
		m.Queue = orderedQueue
	}
	return m
}

// A fate is what happens to an upload, or to a worker: the point at which its process is killed, or
// one of these.
type fate string

const (
	plain      fate = ""
	rolledBack fate = "rolled back"
	late       fate = "late" // committed after younger rows were sent
)

// stormy returns the uploads of the storm. Those that kill the upload service are the first ones,
// and those that commit late come next, so that enough is uploaded after them.
func (p *play) stormy() []upload {
	rng := p.env.RNG(1)
	uploads := p.plain(p.env.Scale(24, 60))
	fates := []fate{pointJob, pointRow, pointCommit}
	for range p.env.Scale(1, 3) {
		fates = append(fates, late)
	}
	for i, f := range fates {
		uploads[i].Fate = f
	}
	deaths := []fate{pointBegun, pointWritten, pointRecorded}
	for _, i := range rng.Perm(len(uploads) - len(fates)) {
		u := &uploads[i+len(fates)]
		switch {
		case len(deaths) > 0:
			u.Worker, deaths = deaths[0], deaths[1:]
		case p.out.RolledBack < p.env.Scale(4, 8):
			u.Fate = rolledBack
			p.out.RolledBack++
		}
		p.uploads[u.Job] = *u
	}
	for _, u := range uploads {
		p.uploads[u.Job] = u
	}
	for n := range p.env.Scale(2, 4) {
		uploads = append(uploads, p.film(fmt.Sprint("film-", n+1), p.env.Scale(3, 5))...)
	}
	return uploads
}

// plain are uploads of videos that have one version.
func (p *play) plain(n int) (uploads []upload) {
	for range n {
		p.jobs++
		job := fmt.Sprintf("job-%03d", p.jobs)
		uploads = append(uploads, upload{Job: job, Video: "video-of-" + job})
		p.uploads[job] = uploads[len(uploads)-1]
	}
	return uploads
}

// film are uploads of versions of a film, in their order.
func (p *play) film(film string, versions int) (uploads []upload) {
	for range versions {
		p.jobs++
		u := upload{Job: fmt.Sprintf("job-%03d", p.jobs), Video: film}
		p.uploads[u.Job] = u
		uploads = append(uploads, u)
	}
	return uploads
}

// Points that processes report.
const (
	pointBetween = "between the two writes" // of usual uploads
	pointJob     = "the job written"
	pointRow     = "the row written"
	pointLate    = "about to commit late"
	pointCommit  = "the upload committed"

	pointClaiming = "about to claim"
	pointClaimed  = "rows claimed"
	pointSending  = "about to send"
	pointDoubt    = "sent, and not answered"
	pointSent     = "rows sent"
	pointSettled  = "rows settled"
	pointLost     = "lease lost"

	pointReceived = "received"
	pointBegun    = "job begun"
	pointWritten  = "file written"
	pointRecorded = "job recorded"

	pointStepping = "about to write rows of a replay"
	pointStepped  = "rows of a replay written"
)

// relays is what is known of the relays and of the replays, to kill them at chosen points.
type relays struct {
	deaths       []string // points that are still to come; the first one is next
	replayDeaths []string
	played       map[string]bool // fates of uploads and workers that have happened

	// Only one relay is killed at a time, and its successor has to be heard of first: otherwise the
	// other relay would send everything meanwhile.
	busy     bool
	newcomer string

	// by relay: jobs that it has sent, or begun to send, and not written down
	unsettled map[string]map[string]bool
	excused   map[string]int // jobs that may be sent again, and how often
}

func newRelays() relays {
	return relays{
		played: make(map[string]bool), unsettled: make(map[string]map[string]bool),
		excused: make(map[string]int),
	}
}

// on takes a report. The crew's mutex is locked.
func (p *play) on(r stage.Report) {
	u := p.uploads[r.Key]
	once := func(f fate) bool { // and only if that is the point
		key := string(f) + r.Key
		was := p.relays.played[key]
		p.relays.played[key] = was || string(f) == r.Point
		return string(f) == r.Point && !was
	}
	switch r.Role {
	case "upload":
		switch {
		case r.Point == pointLate:
			p.overtake(r.Text)
		case once(u.Fate):
			p.crew.Kill(r.From, r.Point, r.Key)
		}
	case "usual":
		p.crew.KillForGood(r.From, r.Point, r.Key)
	case "worker":
		if once(u.Worker) {
			p.crew.Kill(r.From, r.Point, r.Key)
		}
	case "relay":
		p.onRelay(r)
	case "replay":
		if d := p.relays.replayDeaths; len(d) > 0 && d[0] == r.Point {
			p.relays.replayDeaths = d[1:]
			p.crew.Kill(r.From, r.Point, "")
		}
	}
}

// overtake returns when three rows younger than a row have been sent, or after a while.
func (p *play) overtake(row string) {
	younger := 0
	p.crew.Aside(func() {
		for began := time.Now(); younger < 3 && time.Since(began) < 30*time.Second &&
			p.crew.Ctx.Err() == nil; {
			younger, _ = p.number(p.crew.Ctx, `SELECT count(*) FROM outbox_sent WHERE id > $1`, row)
			stage.Pause(p.crew.Ctx, 50*time.Millisecond)
		}
	})
	if younger >= 3 {
		p.out.Late++
	}
}

// onRelay takes a report of a relay.
func (p *play) onRelay(r stage.Report) {
	s := &p.relays
	if s.newcomer == r.From {
		s.newcomer = ""
	}
	mine := s.unsettled[r.From]
	if mine == nil {
		mine = make(map[string]bool)
		s.unsettled[r.From] = mine
	}
	switch r.Point {
	case pointClaiming:
		p.crew.Wait(time.Minute, func() bool { return !s.busy && s.newcomer == "" })
	case pointSending:
		for _, job := range r.Keys {
			mine[job] = true
		}
	case pointSettled:
		for _, job := range r.Keys {
			delete(mine, job)
		}
	case pointDoubt, pointLost:
		for _, job := range r.Keys {
			s.excused[job]++
		}
	}
	plainOnly := r.Point != pointSent || !slices.ContainsFunc(r.Keys, func(job string) bool {
		return p.uploads[job].ordered()
	})
	if len(s.deaths) == 0 || s.deaths[0] != r.Point || s.busy || s.newcomer != "" || !plainOnly ||
		!p.crew.Alive(r.From) {
		return // a FIFO queue would drop the copies
	}
	s.deaths = s.deaths[1:]
	for job := range mine {
		s.excused[job]++
	}
	s.busy = true
	s.newcomer = p.crew.Kill(r.From, r.Point, "")
	s.busy = false
}
