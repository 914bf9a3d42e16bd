package outbox

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/examples/outbox/studio"
)

// usualJobs is the table of the usual uploads.
const usualJobs = `CREATE TABLE usual_jobs (job_id TEXT PRIMARY KEY, status TEXT NOT NULL)`

// uploadAsUsual is the usual upload: it writes to the database and to the queue, one after the
// other. The name of the job says which comes first.
func (p *process) uploadAsUsual() {
	u := p.Uploads[0]
	send := func() {
		body := u.message().Body
		_, err := p.API.SendMessage(p.Ctx,
			&sqs.SendMessageInput{QueueUrl: &p.Usual, MessageBody: &body})
		p.Must(err)
	}
	record := func() {
		if u.Fate != rolledBack { // by a constraint, a deadlock, a limit
			_, err := p.studio.DB.ExecContext(p.Ctx, `INSERT INTO usual_jobs (job_id, status) VALUES ($1, 'pending')`, u.Job)
			p.Must(err)
		}
	}
	first, second := record, send
	if strings.HasPrefix(u.Job, "message-first") {
		first, second = send, record
	}
	first()
	p.Tell(stage.Report{Point: pointBetween, Key: u.Job})
	second()
}

// usual uploads in both orders, handles the messages, and counts what is left over.
func (p *play) usual() {
	for _, order := range []string{"row-first", "message-first"} {
		p.Plan(stage.Death{Point: pointBetween, Key: order + "-2", Final: true})
		for i := range 3 {
			u := upload{Job: fmt.Sprintf("%s-%d", order, i+1), Video: fmt.Sprintf("usual-%d", i+1)}
			if u.Job == "message-first-3" {
				u.Fate = rolledBack
			}
			t := p.base
			t.Uploads = []upload{u}
			p.Finish("usual", t)
		}
	}
	p.Until("work as usual", p.workAsUsual)
	p.out.Usual.Unsent = p.number(`SELECT count(*) FROM usual_jobs WHERE status = 'pending'`)
	files, err := os.ReadDir(usualDir(p.Dir))
	p.Must(err)
	for _, f := range files {
		p.out.Usual.Unrecorded += 1 - p.number(`SELECT count(*) FROM usual_jobs WHERE job_id = $1`,
			strings.TrimSuffix(f.Name(), ".txt"))
	}
	p.Say("as usual: %d jobs have no message, %d were done without a record", p.out.Usual.Unsent,
		p.out.Usual.Unrecorded)
}

// workAsUsual handles the messages that there are, and reports whether none is left.
func (p *play) workAsUsual() bool {
	p.Handle(p.base.Usual, 10, func(m types.Message) {
		var j studio.Job
		p.Must(json.Unmarshal([]byte(aws.ToString(m.Body)), &j))
		p.Must(studio.Write(resultFile(usualDir(p.Dir), j.ID), studio.Transcode(j.Video, good)))
		_, err := p.studio.DB.ExecContext(p.Ctx, `UPDATE usual_jobs SET status = 'done' WHERE job_id = $1`, j.ID)
		p.Must(err)
	})
	return p.Left(p.base.Usual) == 0
}
