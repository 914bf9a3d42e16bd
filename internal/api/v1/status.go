package v1

import (
	"time"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/observe/metric"
)

// A ServerStatus is the answer to GET /v1/status. All of it is in memory, so that it also comes
// while the disk hangs. [V1-25]
type ServerStatus struct {
	Version   string    `json:"version" doc:"of the program"`
	Region    string    `json:"region"`
	Started   time.Time `json:"started" doc:"when the process started"`
	Now       time.Time `json:"now" doc:"the clock of the server"`
	SilenceMS int64     `json:"silenceMs" doc:"since a commit reached the disk, at most about 5000 if all is well"`

	SendsRefused bool          `json:"sendsRefused" doc:"because free disk space is below the reserve, in a cluster on any of its nodes"`
	Disk         DiskStatus    `json:"disk"`
	Commits      CommitStatus  `json:"commits"`
	Turns        TurnStatus    `json:"turns"`
	Requests     RequestStatus `json:"requests"`
	Memory       MemoryStatus  `json:"memory"`
	Backups      *BackupStatus `json:"backups,omitempty" doc:"absent if the server makes none"`

	AlarmsJudgedMS *int64 `json:"alarmsJudgedMs,omitempty" doc:"since all alarms were judged, or else since the server started; at most about 60000 if all is well"`
}

// A DiskStatus is the disk of the data directory, as the server has looked at it last.
type DiskStatus struct {
	FreeBytes    *int64     `json:"freeBytes,omitempty" doc:"absent if the server cannot read it"`
	TotalBytes   *int64     `json:"totalBytes,omitempty"`
	At           *time.Time `json:"at,omitempty" doc:"when these were read; each second unless the disk hangs"`
	ReserveBytes int64      `json:"reserveBytes" doc:"sends are refused while less is free; 0 for no reserve"`
	Near         bool       `json:"near" doc:"less than four times the reserve is free, or less than 256 MiB"`
}

// A CommitStatus says how long the writer waited for the disk, in the latest minutes.
type CommitStatus struct {
	Count int64     `json:"count"`
	Since time.Time `json:"since" doc:"when these were counted from: five to ten minutes ago, or the start"`
	P50MS *float64  `json:"p50Ms,omitempty" doc:"that half of the commits did not exceed, to 7 percent; absent without commits"`
	P99MS *float64  `json:"p99Ms,omitempty"`
}

// A TurnStatus says how many requests the writer carried out together, in the latest minutes.
type TurnStatus struct {
	Count int64     `json:"count" doc:"turns with requests"`
	Since time.Time `json:"since"`
	P50   *int64    `json:"p50,omitempty" doc:"requests in one turn; absent without turns"`
	P99   *int64    `json:"p99,omitempty"`
}

// A RequestStatus says which requests wait, and how many were refused.
type RequestStatus struct {
	Waiting   int   `json:"waiting" doc:"for the writer"`
	Polls     int64 `json:"polls" doc:"receives that wait for messages"`
	Throttled int64 `json:"throttled" doc:"answered RequestThrottled since the process started"`
}

// A MemoryStatus is the memory of the process.
type MemoryStatus struct {
	ResidentBytes int64 `json:"residentBytes,omitempty" doc:"absent if the system does not say"`
	LimitBytes    int64 `json:"limitBytes,omitempty" doc:"of the control groups when the process started; absent for none"`
	Goroutines    int   `json:"goroutines"`
}

// A BackupStatus is what the process knows of its backups.
type BackupStatus struct {
	Running bool       `json:"running" doc:"whether a client reads one now"`
	Taken   *time.Time `json:"taken,omitempty" doc:"state of the data that the latest one has; absent if none was read to its end since the process started"`
	Bytes   int64      `json:"bytes,omitempty" doc:"size of that one"`
}

// SetFree sets what a look at the disk has found.
func (d *DiskStatus) SetFree(free, total int64, at time.Time) {
	d.FreeBytes, d.TotalBytes, d.At = &free, &total, new(at.UTC().Truncate(time.Second))
	d.Near = IsDiskNear(free, d.ReserveBytes)
}

// IsDiskNear reports whether so little is free that it should be looked at before sends are
// refused.
func IsDiskNear(free, reserve int64) bool { return free/4 < max(reserve, 64<<20) }

// status answers GET /v1/status. It asks neither the writer nor the disk.
func (c *call) status(none) (s ServerStatus, err error) {
	m := c.cfg.Broker.Metrics()
	s = ServerStatus{
		Version: c.cfg.Version, Now: time.Now().UTC().Truncate(time.Millisecond),
		SilenceMS:    c.cfg.Broker.Silence().Milliseconds(),
		SendsRefused: m.NoSpace,
		Requests:     RequestStatus{Waiting: m.Intake, Polls: m.Polls},
	}
	times, n, since := quantiles(m.RecentCommits)
	s.Commits.Count, s.Commits.Since = n, since
	if n > 0 {
		s.Commits.P50MS = new(float64(times[0]) / 1000)
		s.Commits.P99MS = new(float64(times[1]) / 1000)
	}
	sizes, n, since := quantiles(m.RecentTurns)
	s.Turns.Count, s.Turns.Since = n, since
	if n > 0 {
		s.Turns.P50, s.Turns.P99 = &sizes[0], &sizes[1]
	}
	for _, end := range c.cfg.Intake.Ends.All() {
		if end.Code == string(sqswire.RequestThrottled) {
			s.Requests.Throttled += end.N.Value()
		}
	}
	if c.cfg.Monitor != nil {
		s.AlarmsJudgedMS = new(c.cfg.Monitor.Judged().Milliseconds())
	}
	c.cfg.Status(&s)
	return s, nil
}

func quantiles(r *metric.Recent) (values []int64, n int64, since time.Time) {
	values, n, since = r.Quantiles(0.5, 0.99)
	return values, n, since.UTC().Truncate(time.Second)
}
