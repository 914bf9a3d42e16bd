package peers

import (
	"fmt"
	"runtime"

	"tenaq/internal/bench"
	"tenaq/internal/cli"
)

// A Report is what "bench peers" prints with --json.
type Report struct {
	Processors int     `json:"processors"`
	Clients    int     `json:"clients"`
	Rounds     int     `json:"rounds"`
	Round      float64 `json:"roundSeconds"`
	Rows       []Row   `json:"rows"`
	Ratios     []Ratio `json:"ratios"`
}

// A Row is a peer.
type Row struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Forced  string `json:"onDiskBeforeAnswer"`
	Missing string `json:"installWith,omitempty"` // it is not installed
	Cells   []Cell `json:"measured"`
}

// A Cell is one workload on one peer.
type Cell struct {
	Column string  `json:"workload"`
	Rate   float64 `json:"messagesPerSecond"` // the median of the rounds
	CPU    float64 `json:"cpuMicroseconds"`   // of the peer, for one message

	rounds []float64
}

// A Ratio compares tenaq with a peer.
type Ratio struct {
	What     string  `json:"workload"`
	Peer     string  `json:"peer"`
	Bound    float64 `json:"atLeast"`
	Measured float64 `json:"measured"` // the median over the rounds
	Least    float64 `json:"least"`
	Most     float64 `json:"most"`
	Holds    bool    `json:"holds"`
}

// bounds are the ratios that tenaq promises.
var bounds = []Ratio{
	{What: "lives in tens", Peer: "redis", Bound: 1.0},
	{What: "lives", Peer: "rabbitmq", Bound: 1.3},
	{What: "lives", Peer: "elasticmq", Bound: 6},
}

func newReport(c *Config, chosen []Peer) *Report {
	r := &Report{Processors: runtime.NumCPU(), Clients: c.Load.Clients, Rounds: c.Rounds,
		Round: c.Load.Round.Seconds(), Ratios: []Ratio{}}
	for _, p := range chosen {
		r.Rows = append(r.Rows, Row{Name: p.Name, Title: p.Title, Forced: p.Forced,
			Cells: []Cell{}})
	}
	return r
}

// judge compares the first row with those that have a bound, round by round.
func (r *Report) judge() {
	for _, b := range bounds {
		ours, theirs := r.rounds("tenaq", b.What), r.rounds(b.Peer, b.What)
		if len(ours) == 0 || len(theirs) == 0 {
			continue // it is not installed, or was not chosen
		}
		ratios := make([]float64, len(ours))
		for i := range ours {
			ratios[i] = ours[i] / max(theirs[i], 1e-9)
		}
		b.Measured = bench.Median(ratios)
		b.Least, b.Most, b.Holds = ratios[0], ratios[len(ratios)-1], b.Measured >= b.Bound
		r.Ratios = append(r.Ratios, b)
	}
}

func (r *Report) rounds(peer, column string) []float64 {
	for _, row := range r.Rows {
		for _, c := range row.Cells {
			if row.Name == peer && c.Column == column {
				return c.rounds
			}
		}
	}
	return nil
}

// Failed returns the number of bounds that are not met.
func (r *Report) Failed() (n int) {
	for _, ratio := range r.Ratios {
		if !ratio.Holds {
			n++
		}
	}
	return n
}

// Table returns the rows for people.
func (r *Report) Table() cli.Table {
	t := cli.Table{Head: []string{"", "LIVES/S", "IN TENS/S", "SENDS/S 100 B", "SENDS/S 4 KIB",
		"CPU MS FOR 1000 SENDS", "ON DISK BEFORE AN ANSWER"}}
	for _, row := range r.Rows {
		if row.Missing != "" {
			t.Add(row.Title, "", "", "", "", "", "not installed: "+row.Missing)
			continue
		}
		cells := []string{row.Title}
		for _, c := range row.Cells {
			cells = append(cells, fmt.Sprintf("%.0f", c.Rate))
		}
		last := row.Cells[len(row.Cells)-2:] // microseconds for one are milliseconds for 1,000
		t.Add(append(cells, fmt.Sprintf("%.0f, %.0f", last[0].CPU, last[1].CPU), row.Forced)...)
	}
	return t
}

// RatioTable returns the bounds for people.
func (r *Report) RatioTable() cli.Table {
	t := cli.Table{Head: []string{"TENAQ AGAINST", "BOUND", "MEASURED", "HOLDS"}}
	for _, b := range r.Ratios {
		holds := "no"
		if b.Holds {
			holds = "yes"
		}
		t.Add(b.What+", "+b.Peer, fmt.Sprintf(">= %.1f", b.Bound),
			fmt.Sprintf("%.2f (rounds %.2f to %.2f)", b.Measured, b.Least, b.Most), holds)
	}
	return t
}
