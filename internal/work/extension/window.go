package extension

// The bounds of a deduplication window, in milliseconds. The least is the window of SQS. [EXT-29]
const (
	windowMin = 5 * 60 * 1000
	windowMax = 365 * 24 * 3600 * 1000
)

// readWindow reads an age such as 7d.
func readWindow(value string, s *Set) (ok bool) {
	s.DedupWindow, ok = measure(value, times, windowMin, windowMax)
	return ok
}

func sayWindow(s *Set) string {
	return "a deduplication id is remembered for " + inUnits(s.DedupWindow, times)
}
