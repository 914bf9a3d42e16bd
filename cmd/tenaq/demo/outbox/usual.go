package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/examples/outbox/studio"
)

// usualJobs is the table of the usual uploads.
const usualJobs = `CREATE TABLE usual_jobs (job_id TEXT PRIMARY KEY, status TEXT NOT NULL)`

// uploadAsUsual is the upload as it is usually written: it writes to the database and to the queue,
// one after the other. Which one comes first is in the name of the job.
func (p *process) uploadAsUsual(ctx context.Context) error {
	u := p.Uploads[0]
	send := func() error {
		body := u.message().Body
		_, err := p.api.SendMessage(ctx,
			&sqs.SendMessageInput{QueueUrl: &p.Usual, MessageBody: &body})
		return err
	}
	record := func() error {
		if u.Fate == rolledBack { // a constraint, a deadlock, a limit
			return nil
		}
		_, err := p.studio.DB.ExecContext(ctx, `INSERT INTO usual_jobs (job_id, status) VALUES ($1, 'pending')`, u.Job)
		return err
	}
	first, second := record, send
	if strings.HasPrefix(u.Job, "message-first") {
		first, second = send, record
	}
	if err := first(); err != nil {
		return err
	}
	if u.Fate == pointBetween {
		p.Tell(ctx, stage.Report{Point: pointBetween, Key: u.Job})
	}
	return second()
}

// usual uploads in both orders, does what the queue asks for, and counts what is left over.
func (p *play) usual(ctx context.Context) error {
	if p.env.Broken != "" { // shown without what is usual
		return nil
	}
	for _, order := range []string{"row-first", "message-first"} {
		for i, f := range []fate{plain, pointBetween, plain} {
			if i == 2 && order == "message-first" {
				f = rolledBack
			}
			t := p.base
			t.Uploads = []upload{{Job: fmt.Sprintf("%s-%d", order, i+1),
				Video: fmt.Sprintf("usual-%d", i+1), Fate: f}}
			if err := p.crew.Finish("usual", t, func() {}); err != nil {
				return err
			}
		}
	}
	if err := p.crew.Until("work as usual", func() (bool, error) {
		return p.workAsUsual(ctx)
	}); err != nil {
		return err
	}
	pending, err := p.number(ctx, `SELECT count(*) FROM usual_jobs WHERE status = 'pending'`)
	if err != nil {
		return err
	}
	p.out.Usual.Unsent = pending
	files, err := os.ReadDir(usualDir(p.env.Dir))
	for _, f := range files {
		n, errCount := p.number(ctx, `SELECT count(*) FROM usual_jobs WHERE job_id = $1`, strings.TrimSuffix(f.Name(), ".txt"))
		p.out.Usual.Unrecorded += 1 - n
		err = errors.Join(err, errCount)
	}
	p.env.Say("as usual: %d jobs have no message, %d were done without a record", pending,
		p.out.Usual.Unrecorded)
	return err
}

// workAsUsual handles the messages that there are, and reports whether none is left.
func (p *play) workAsUsual(ctx context.Context) (bool, error) {
	got, err := p.sqs.API.ReceiveMessage(ctx,
		&sqs.ReceiveMessageInput{QueueUrl: &p.base.Usual, MaxNumberOfMessages: 10})
	if err != nil {
		return false, err
	}
	for _, m := range got.Messages {
		var j studio.Job
		err := json.Unmarshal([]byte(aws.ToString(m.Body)), &j)
		if err == nil {
			err = studio.Write(resultFile(usualDir(p.env.Dir), j.ID),
				studio.Transcode(j.Video, good))
		}
		if err == nil {
			_, err = p.studio.DB.ExecContext(ctx, `UPDATE usual_jobs SET status = 'done' WHERE job_id = $1`, j.ID)
		}
		if err == nil {
			_, err = p.sqs.API.DeleteMessage(ctx,
				&sqs.DeleteMessageInput{QueueUrl: &p.base.Usual, ReceiptHandle: m.ReceiptHandle})
		}
		if err != nil {
			return false, err
		}
	}
	left, err := p.sqs.Left(ctx, p.base.Usual)
	return left == 0, err
}
