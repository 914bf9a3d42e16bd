package budget

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// processors returns the processors that this process may use.
func processors() (ids []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, err
	}
	for id := 0; len(ids) < set.Count(); id++ {
		if set.IsSet(id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// pin has a process use no other processors than these, with the threads that it has and will have.
func pin(pid string, ids []int) error {
	var set unix.CPUSet
	for _, id := range ids {
		set.Set(id)
	}
	for range 2 { // a thread may have been started by another while it was not yet pinned
		threads, err := os.ReadDir("/proc/" + pid + "/task")
		if err != nil {
			return err
		}
		for _, thread := range threads {
			id, err := strconv.Atoi(thread.Name())
			if err != nil {
				return err
			}
			if err := unix.SchedSetaffinity(id, &set); err != nil && err != unix.ESRCH {
				return err
			}
		}
	}
	return nil
}
