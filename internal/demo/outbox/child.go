package outbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// A Task is what a process is told in the first line of its standard input. When the rest of it ends, so does the
// process.
type Task struct {
	Name     string   `json:"name"`
	Role     role     `json:"role"`
	Dir      string   `json:"dir"`
	Database string   `json:"database"` // URL; empty for files in Dir
	Stage    string   `json:"stage"`    // URL
	Queues   Queues   `json:"queues"`
	Break    Breakage `json:"break"`

	Uploads    []upload `json:"uploads,omitempty"`
	SendFirst  bool     `json:"send_first,omitempty"` // of the usual uploads
	Transcoder int      `json:"transcoder,omitempty"` // of workers
	Replay     *replay  `json:"replay,omitempty"`
}

// A role is what a process is.
type role string

// Those that upload and replay end when they are done, the others when they are told to.
const (
	roleUsual  role = "usual"
	roleUpload role = "upload"
	roleRelay  role = "relay"
	roleWorker role = "worker"
	roleReplay role = "replay"
)

func (r role) ends() bool { return r == roleUsual || r == roleUpload || r == roleReplay }

// Work is a process. It returns when it is done, or when ctx or in ends.
func Work(ctx context.Context, in io.Reader, api *sqs.Client) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	var t Task
	if err := json.Unmarshal(line, &t); err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		cancel()
	}()
	db, err := openDatabase(ctx, t.Dir, t.Database)
	if err != nil {
		return err
	}
	defer db.close()
	switch t.Role {
	case roleUsual:
		err = t.uploadAsUsual(ctx, db, api)
	case roleUpload:
		err = t.upload(ctx, db)
	case roleRelay:
		err = t.relay(ctx, db, api)
	case roleWorker:
		err = t.work(ctx, db, api)
	case roleReplay:
		err = t.replay(ctx, db)
	default:
		err = fmt.Errorf("there is no role %q", t.Role)
	}
	return err
}

// A point is how far a process has come.
type point string

const (
	// Of uploads, usual ones first.
	pointBetween point = "between the two writes"
	pointRow     point = "row written"
	pointOutbox  point = "outbox written"
	pointLate    point = "about to commit late"
	pointCommit  point = "committed"

	// Of relays.
	pointClaiming point = "about to claim"
	pointClaimed  point = "claimed"
	pointSending  point = "about to send"
	pointDoubt    point = "sent, and not answered"
	pointSent     point = "sent"
	pointSettled  point = "settled"
	pointLost     point = "lost its lease"

	// Of workers.
	pointHalf     point = "half a file written"
	pointWritten  point = "file written"
	pointRecorded point = "job recorded"

	// Of replays.
	pointStepping point = "about to write rows"
	pointStepped  point = "rows written"
)

// A report is what a process says at a point.
type report struct {
	Name   string   `json:"name"`
	Role   role     `json:"role"`
	Point  point    `json:"point"`
	Upload *upload  `json:"upload,omitempty"`
	Row    string   `json:"row,omitempty"`  // id in the outbox
	Jobs   []string `json:"jobs,omitempty"` // of a relay, a worker and a replay
	Queue  string   `json:"queue,omitempty"`
}

// tell tells the stage, and waits until the process may go on. A process that is killed here never does.
func (t *Task) tell(ctx context.Context, r report) {
	r.Name, r.Role = t.Name, t.Role
	body, _ := json.Marshal(r) // nothing in it can fail to be encoded
	in, err := http.NewRequestWithContext(ctx, http.MethodPost, t.Stage, bytes.NewReader(body))
	if err != nil {
		return
	}
	in.Header.Set("Content-Type", "application/json")
	if out, err := http.DefaultClient.Do(in); err == nil {
		_, _ = io.Copy(io.Discard, out.Body)
		_ = out.Body.Close()
	}
}
