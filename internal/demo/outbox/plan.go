package outbox

import "fmt"

// An upload is what a client asks the upload service for, with what is to happen to it.
type upload struct {
	Job   string `json:"job"`
	Video string `json:"video"`

	// Ordered is whether the video is a film, whose versions have to be transcoded in their order.
	Ordered bool `json:"ordered"`
	Fate    fate `json:"fate"`
	Worker  fate `json:"worker"` // the fate of the first worker that has the job
}

// A fate is what happens to an upload, or to the worker that has its job.
type fate string

const (
	plain fate = ""

	// Of uploads.
	rolledBack fate = "rolled back"
	late       fate = "late" // committed after younger rows were sent
	diesRow    fate = "killed after the row of the job"
	diesOutbox fate = "killed after the row of the outbox"
	diesCommit fate = "killed after the commit"

	// Of workers.
	diesHalf     fate = "killed with half a file"
	diesWritten  fate = "killed after the file was written"
	diesRecorded fate = "killed after the job was recorded"
)

// How many uploads have a fate in the storm, and workers, each another one.
const (
	Lates        = 3
	UploadDeaths = 3
	WorkerDeaths = 3

	rollbacks = 8
)

// stormy returns the uploads of the storm. Those that kill the upload service are the first ones, and those that
// commit late come next, so that enough is uploaded after them.
func (d *demo) stormy() []upload {
	rng := d.rng(1)
	uploads := d.plainUploads(d.Scale.Plain)
	for f := range d.Scale.Films {
		for range d.Scale.Versions {
			uploads = append(uploads, d.filmUpload(fmt.Sprint("film-", f+1)))
		}
	}
	rng.Shuffle(len(uploads), func(i, j int) { uploads[i], uploads[j] = uploads[j], uploads[i] })
	give := func(from, to int, fates ...fate) {
		for i := from; i < to && len(fates) > 0; i++ {
			if !uploads[i].Ordered && uploads[i].Fate == plain {
				uploads[i].Fate, fates = fates[0], fates[1:]
			}
		}
	}
	give(0, len(uploads), diesRow, diesOutbox, diesCommit)
	give(0, len(uploads), late, late, late)
	for n := 0; n < rollbacks; { // of either kind
		if u := &uploads[rng.IntN(len(uploads))]; u.Fate == plain {
			u.Fate = rolledBack
			n++
		}
	}
	deaths := []fate{diesHalf, diesWritten, diesRecorded}
	for _, i := range rng.Perm(len(uploads)) {
		if u := &uploads[i]; len(deaths) > 0 && u.Fate == plain {
			u.Worker, deaths = deaths[0], deaths[1:]
		}
	}
	return uploads
}

// plainUploads are uploads of videos that have one version.
func (d *demo) plainUploads(n int) []upload {
	uploads := make([]upload, n)
	for i := range uploads {
		job := d.nextJob()
		uploads[i] = upload{Job: job, Video: videoOf(job)}
	}
	return uploads
}

// videoOf is the video of a job that is the only one about it.
func videoOf(job string) string { return "video-of-" + job }

func (d *demo) filmUpload(film string) upload {
	return upload{Job: d.nextJob(), Video: film, Ordered: true}
}

func (d *demo) nextJob() string {
	d.jobs++
	return fmt.Sprintf("job-%03d", d.jobs)
}
