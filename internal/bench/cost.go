package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Costed is a contender that counts the CPU time of a process and its descendants.
type Costed struct {
	Contender
	PID int

	rounds []float64 // seconds for a message
}

// Round does the round of the contender.
func (c *Costed) Round(ctx context.Context, load Load) (Tally, error) {
	before, err := CPUTime(c.PID)
	if err != nil {
		return Tally{}, err
	}
	t, err := c.Contender.Round(ctx, load)
	if err != nil {
		return t, err
	}
	after, err := CPUTime(c.PID)
	c.rounds = append(c.rounds, (after-before).Seconds()/float64(max(t.Messages, 1)))
	return t, err
}

// Each returns the CPU time for one message, the median of all rounds but the first, in which
// everything is cold.
func (c *Costed) Each() time.Duration {
	if len(c.rounds) < 2 {
		return 0
	}
	return time.Duration(Median(append([]float64(nil), c.rounds[1:]...)) * float64(time.Second))
}

// clockTick is the unit of time in /proc, which is the same on all Linux machines.
const clockTick = 10 * time.Millisecond

// CPUTime returns the CPU time that a process and its descendants have used. It needs Linux.
func CPUTime(pid int) (used time.Duration, err error) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	children := make(map[int][]int)
	times := make(map[int]time.Duration)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		id, parent, used, err := parseStat(string(text))
		if err != nil {
			return 0, err
		}
		children[parent] = append(children[parent], id)
		times[id] = used
	}
	if _, ok := times[pid]; !ok {
		return 0, fmt.Errorf("/proc/%d/stat does not report the CPU time of the process; this needs Linux", pid)
	}
	for all := []int{pid}; len(all) > 0; {
		id := all[0]
		all = append(all[1:], children[id]...)
		used += times[id]
	}
	return used, nil
}

// parseStat parses /proc/PID/stat. The name of the program may be anything and stands in
// parentheses. Behind it are the parent, in the second field, and from the twelfth on user and
// system time of the process and then of its children that have ended.
func parseStat(stat string) (id, parent int, used time.Duration, err error) {
	first, _, _ := strings.Cut(stat, " ")
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 15 {
		return 0, 0, 0, fmt.Errorf("%.40q does not report the CPU time of a process", stat)
	}
	numbers := make([]int, 0, 6)
	for _, field := range append([]string{first, fields[1]}, fields[11:15]...) {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, 0, 0, err
		}
		numbers = append(numbers, n)
	}
	ticks := numbers[2] + numbers[3] + numbers[4] + numbers[5]
	return numbers[0], numbers[1], time.Duration(ticks) * clockTick, nil
}
