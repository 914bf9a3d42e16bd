package outbox

import (
	"cmp"
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
	Fate       string // of the upload
	Worker     string // where the first worker that has the job is killed; empty for nowhere
}

// Fates of uploads, beside the points at which the upload service is killed.
const (
	plain      = ""
	rolledBack = "rolled back"
	late       = "late" // committed after younger rows were sent
)

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

// stormy returns the uploads of the storm. The uploads that kill their service come first, then
// those that commit late, so that enough is uploaded after them.
func (p *play) stormy() []upload {
	uploads := p.plain(p.Scale(24, 60))
	fates := []string{pointJob, pointRow, pointCommit}
	for range p.Scale(1, 3) {
		fates = append(fates, late)
	}
	for i, f := range fates {
		uploads[i].Fate = f
	}
	deaths := []string{stage.Begun, pointWritten, pointRecorded}
	for _, i := range p.RNG(1).Perm(len(uploads) - len(fates)) {
		u := &uploads[i+len(fates)]
		switch {
		case len(deaths) > 0:
			u.Worker, deaths = deaths[0], deaths[1:]
		case p.out.RolledBack < p.Scale(4, 8):
			u.Fate = rolledBack
			p.out.RolledBack++
		}
	}
	for _, u := range uploads {
		p.uploads[u.Job] = u
	}
	for n := range p.Scale(2, 4) {
		uploads = append(uploads, p.film(fmt.Sprint("film-", n+1), p.Scale(3, 5))...)
	}
	return uploads
}

// plain are uploads of videos that have one version.
func (p *play) plain(n int) []upload { return p.film("", n) }

// film are uploads of versions of a film, in their order. Without a film each is another video.
func (p *play) film(film string, n int) (uploads []upload) {
	for range n {
		p.jobs++
		u := upload{Job: fmt.Sprintf("job-%03d", p.jobs)}
		u.Video = cmp.Or(film, "video-of-"+u.Job)
		p.uploads[u.Job] = u
		uploads = append(uploads, u)
	}
	return uploads
}

// Points that processes report, beside those of a watched worker.
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

	pointWritten  = "file written"
	pointRecorded = "job recorded"

	pointStepping = "about to write rows of a replay"
	pointStepped  = "rows of a replay written"
)

// deaths plans the deaths of the storm: of the upload service, of workers, and of relays at each of
// their steps.
func (p *play) deaths(uploads []upload) (all []stage.Death) {
	for _, u := range uploads {
		if u.Fate != plain && u.Fate != rolledBack && u.Fate != late {
			all = append(all, stage.Death{Point: u.Fate, Key: u.Job})
		}
		if u.Worker != "" {
			all = append(all, stage.Death{Point: u.Worker, Key: u.Job})
		}
	}
	for range p.Scale(1, 2) {
		for _, point := range []string{pointClaiming, pointClaimed, pointSent, pointSettled} {
			all = append(all, stage.Death{Point: point, If: func(r stage.Report) bool {
				ordered := slices.ContainsFunc(r.Keys, func(job string) bool {
					return p.uploads[job].ordered()
				})
				// A FIFO queue would drop the copies.
				return p.heard() && !(point == pointSent && ordered)
			}})
		}
	}
	return all
}

// heard reports whether both relays have reported something. Only one relay is killed at a time.
// Its successor has to report before the next death, and before any relay claims more rows;
// otherwise the other relay would send everything meanwhile.
func (p *play) heard() bool {
	killed, relays := 0, make(map[string]bool)
	for _, r := range p.Seen("") {
		if r.Role == "relay" {
			relays[r.From] = true
			killed += stage.One(r.Point == stage.Killed)
		}
	}
	return len(relays) == 2+killed
}

// on takes a report. The crew's mutex is locked.
func (p *play) on(r stage.Report) {
	switch r.Point {
	case pointLate:
		p.overtake(r.Text)
	case pointClaiming:
		p.Wait(time.Minute, p.heard)
	}
}

// overtake returns when three rows younger than a row have been sent, or after a while.
func (p *play) overtake(row string) {
	younger := 0
	p.Aside(func() {
		for began := time.Now(); younger < 3 && time.Since(began) < 30*time.Second &&
			p.Ctx.Err() == nil; stage.Pause(p.Ctx, 50*time.Millisecond) {
			_ = p.studio.DB.QueryRowContext(p.Ctx,
				`SELECT count(*) FROM outbox_sent WHERE id > $1`, row).Scan(&younger)
		}
	})
	p.out.Late += stage.One(younger >= 3)
}
