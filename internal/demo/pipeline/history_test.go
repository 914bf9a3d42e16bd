package pipeline

import (
	"os"
	"path/filepath"
	"testing"
)

// What is half there is read when it is whole.
func TestHistoryIsReadAsItGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	reader, err := openHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.close()
	writer, err := openHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.close()
	const line = `{"What":"wrote","File":"c"}` + "\n"
	for _, step := range []struct {
		write func()
		want  int
	}{
		{func() {}, 0},
		{func() { writer.note(event{What: started, File: "a"}); writer.note(event{What: completed, File: "b"}) }, 2},
		{func() { writer.f.WriteString(line[:9]) }, 2},
		{func() { writer.f.WriteString(line[9:]) }, 3},
		{func() {}, 3},
	} {
		step.write()
		if err := reader.read(); err != nil || len(reader.events) != step.want {
			t.Fatalf("got %v and error %v, want %d events", reader.events, err, step.want)
		}
	}
	if reader.of("c").count(wrote) != 1 || reader.of("a").has(completed) || !reader.of("b").has(started, completed) {
		t.Errorf("got %v", reader.events)
	}
	if e := reader.events[0]; e.Process != os.Getpid() || e.At.IsZero() {
		t.Errorf("got %+v, want who and when", e)
	}
}

// A lease that is lost takes back the task that it was the lease of, and no other.
func TestTasks(t *testing.T) {
	for _, test := range []struct {
		name string
		of   events
		want int
	}{
		{"none", nil, 0},
		{"one", events{{What: started, Message: "m", Process: 1}, {What: completed, Message: "m", Process: 1}}, 1},
		{"after a death", events{{What: started, Message: "m", Process: 1}, {What: died}, {What: started, Message: "m", Process: 2}}, 2},
		{"lost", events{{What: started, Message: "m", Process: 1}, {What: lost, Message: "m", Process: 1}, {What: started, Message: "m", Process: 1}}, 1},
		{"lost before the claim", events{{What: lost, Message: "m", Process: 1}, {What: started, Message: "m", Process: 2}}, 1},
		{"lost by another", events{{What: started, Message: "m", Process: 1}, {What: lost, Message: "m", Process: 2}}, 1},
	} {
		if got := test.of.tasks(); got != test.want {
			t.Errorf("%s: got %d tasks, want %d", test.name, got, test.want)
		}
	}
}
