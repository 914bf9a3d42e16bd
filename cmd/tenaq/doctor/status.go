package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tenaq/internal/api/v1"
	"tenaq/internal/cli"
)

func NewStatusCmd(a *cli.App) *cobra.Command {
	f := &cli.ClientFlags{}
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the figures of a running server: disk, commits, memory",
		Long: `Show how a running tenaq server is doing: its version and start, the free space
of its disk, whether it refuses sends, how long commits take, what waits, its
memory, and its latest backup. "tenaq health" only checks that a server is
ready, and "tenaq doctor" examines it and its queues.

  last commit   how long ago a commit reached the disk: a few seconds at most,
                or the disk hangs
  commit time   how long a commit waits for the disk, of the latest five to ten
                minutes. At p50 half of the commits are faster
  turn          requests that one commit carries out together
  throttled     requests that were refused since the start because too many
                waited
  backup        of this process; copies of files are not known to it

The server answers from memory, so it also answers while its disk hangs. In a
cluster, the leader answers with its own figures; "tenaq cluster status" shows
the disks of all nodes. The exit code is 0 whatever the figures are.

The command needs a key with tenaq:ViewSettings, of the account of the server.`,
		Example: `  tenaq status
  tenaq status --json | jq .disk.freeBytes`,
		Args: cli.Wants(0, 0),
		RunE: f.RunV1("does not show its figures: this needs a tenaq server of this version",
			func(ctx context.Context, v *cli.V1Client, _ []string) error {
				var s v1.ServerStatus
				err := v.Get(ctx, "show the figures of the server", "", "/status", nil, &s)
				switch {
				case err != nil:
					return err
				case a.JSON:
					return a.PrintJSON(s)
				}
				return a.PrintTable(statusTable(&s))
			}),
	}
	f.Register(cmd)
	return cmd
}

func statusTable(s *v1.ServerStatus) cli.Table {
	ago := func(ms int64) string {
		if ms < 1000 {
			return "less than a second ago"
		}
		return cli.RoughDuration(time.Duration(ms)*time.Millisecond) + " ago"
	}
	took := func(ms float64) string {
		return cli.ShortDuration(time.Duration(ms * float64(time.Millisecond)))
	}
	of := func(n int64, one, many string, since time.Time) string {
		return fmt.Sprintf(" of %s in the last %s", cli.Counted(n, one, many),
			cli.RoughDuration(s.Now.Sub(since)))
	}
	t := cli.Table{Head: []string{"FIGURE", "VALUE"}}
	t.Add("version", s.Version)
	t.Add("region", s.Region)
	t.Add("started", cli.HumanTime(s.Started, s.Now))
	t.Add("last commit", ago(s.SilenceMS))
	t.Add("sends", sends(s))
	t.Add("disk", disk(&s.Disk, s.Now))
	commits, turns := "none lately", "none lately"
	if c := &s.Commits; c.P50MS != nil && c.P99MS != nil {
		commits = fmt.Sprintf("p50 %s, p99 %s,", took(*c.P50MS), took(*c.P99MS)) +
			of(c.Count, "commit", "commits", c.Since)
	}
	if r := &s.Turns; r.P50 != nil && r.P99 != nil {
		turns = fmt.Sprintf("p50 %d, p99 %s,", *r.P50, cli.Counted(*r.P99, "request", "requests")) +
			of(r.Count, "turn", "turns", r.Since)
	}
	t.Add("commit time", commits)
	t.Add("turn", turns)
	t.Add("waiting", cli.Counted(s.Requests.Waiting, "request", "requests")+" for the writer, "+
		cli.Counted(s.Requests.Polls, "receive", "receives")+" for messages")
	t.Add("throttled", cli.Counted(s.Requests.Throttled, "request", "requests"))
	memory := cli.HumanSize(s.Memory.ResidentBytes) + " resident"
	if s.Memory.ResidentBytes == 0 {
		memory = "not known on this system"
	}
	if s.Memory.LimitBytes > 0 {
		memory += " of " + cli.HumanSize(s.Memory.LimitBytes)
	}
	t.Add("memory", memory)
	t.Add("goroutines", fmt.Sprint(s.Memory.Goroutines))
	if s.AlarmsJudgedMS != nil {
		t.Add("alarms judged", ago(*s.AlarmsJudgedMS))
	}
	if s.Backups != nil {
		t.Add("backup", backupOf(s.Backups, s.Now))
	}
	return t
}

func sends(s *v1.ServerStatus) string {
	switch {
	case !s.SendsRefused:
		return "accepted"
	case s.Disk.FreeBytes != nil && *s.Disk.FreeBytes > s.Disk.ReserveBytes/20*21:
		return "refused: the disk of another node is nearly full; see tenaq cluster status"
	}
	return "refused: free space on the disk; receives and deletes go on"
}

func disk(d *v1.DiskStatus, now time.Time) string {
	text := "free space not known"
	if d.FreeBytes != nil && d.TotalBytes != nil {
		text = fmt.Sprintf("%s free of %s", cli.HumanSize(*d.FreeBytes),
			cli.HumanSize(*d.TotalBytes))
		if d.Near {
			text = "NEARLY FULL: " + text
		}
		const old = 10 * time.Second
		if d.At != nil && now.Sub(*d.At) > old {
			text += " as of " + cli.HumanTime(*d.At, now)
		}
	}
	if d.ReserveBytes > 0 {
		text += "; below " + cli.HumanSize(d.ReserveBytes) + " sends are refused"
	}
	return text
}

func backupOf(b *v1.BackupStatus, now time.Time) string {
	text := "none since the start"
	if b.Taken != nil {
		text = cli.HumanTime(*b.Taken, now) + ", " + cli.HumanSize(b.Bytes)
	}
	if b.Running {
		text += "; one is being read"
	}
	return text
}
