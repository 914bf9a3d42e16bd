package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// diesBetween is the fate of a usual upload.
const diesBetween fate = "killed between the two writes"

// usualUploads is how many there are in each order. One in three goes wrong.
const usualUploads = 6

// usual runs the first part: uploads that write to the database and to the queue, in one order and in the other.
func (d *demo) usual() error {
	d.Say("uploads that write to the database and to the queue, as usual")
	for _, sendFirst := range []bool{false, true} {
		uploads := make([]upload, usualUploads)
		for i := range uploads {
			order := "row"
			if sendFirst {
				order = "message"
			}
			uploads[i] = upload{Job: fmt.Sprintf("usual-%s-%d", order, i+1), Video: fmt.Sprintf("usual-%d", i+1)}
		}
		uploads[1].Fate, uploads[4].Fate = diesBetween, diesBetween
		if sendFirst {
			uploads[4].Fate = rolledBack
		}
		for len(uploads) > 0 {
			m, err := d.crew.hire(Task{Role: roleUsual, Uploads: uploads, SendFirst: sendFirst})
			if err != nil {
				return err
			}
			if err := d.until("upload as usual", func() (bool, error) { return d.crew.over(m), nil }); err != nil {
				return err
			}
			next := len(uploads)
			for i, u := range uploads {
				if m.killed && u.Fate == diesBetween {
					next = i + 1 // whoever asked for this one was told nothing
					break
				}
			}
			uploads = uploads[next:]
		}
	}
	if err := d.workAsUsual(); err != nil {
		return err
	}
	return d.countUsual()
}

// uploadAsUsual is the code as it is usually written.
func (t *Task) uploadAsUsual(ctx context.Context, db *database, api *sqs.Client) error {
	for _, u := range t.Uploads {
		send := func() error {
			body := work{Job: u.Job, Video: u.Video, Version: 1}.body()
			_, err := api.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &t.Queues.Usual, MessageBody: &body})
			return err
		}
		record := func() error {
			return db.within(ctx, func(tx *sql.Tx) error {
				if _, err := tx.ExecContext(ctx, `INSERT INTO usual_jobs (job_id, status) VALUES ($1, 'pending')`, u.Job); err != nil {
					return err
				}
				if u.Fate == rolledBack { // a constraint, a deadlock, a limit
					return errEnough
				}
				return nil
			})
		}
		first, second := record, send
		if t.SendFirst {
			first, second = send, record
		}
		if err := first(); err != nil {
			return err
		}
		t.tell(ctx, report{Point: pointBetween, Upload: &u})
		if err := second(); err != nil && !errors.Is(err, errEnough) {
			return err
		}
	}
	return nil
}

// workAsUsual does what the queue asks for.
func (d *demo) workAsUsual() error {
	return d.until("work as usual", func() (bool, error) {
		got, err := d.API.ReceiveMessage(d.ctx, &sqs.ReceiveMessageInput{QueueUrl: &d.Queues.Usual, MaxNumberOfMessages: 10})
		if err != nil {
			return false, err
		}
		for _, m := range got.Messages {
			var w work
			if err := json.Unmarshal([]byte(aws.ToString(m.Body)), &w); err != nil {
				return false, err
			}
			file, err := transcode(firstVersion, tone(w.Video, w.Version))
			if err == nil {
				err = os.WriteFile(resultFile(filepath.Join(d.Dir, usualDir), w.Job), file, 0o600)
			}
			if err == nil {
				_, err = d.db.ExecContext(d.ctx, `UPDATE usual_jobs SET status = 'done' WHERE job_id = $1`, w.Job)
			}
			if err == nil {
				_, err = d.API.DeleteMessage(d.ctx, &sqs.DeleteMessageInput{QueueUrl: &d.Queues.Usual, ReceiptHandle: m.ReceiptHandle})
			}
			if err != nil {
				return false, err
			}
		}
		left, err := d.messagesIn(d.ctx, d.Queues.Usual)
		return left == 0 && len(got.Messages) == 0, err
	})
}

// countUsual holds jobs and files against each other.
func (d *demo) countUsual() (err error) {
	u := &d.out.Usual
	if u.Unsent, err = d.db.count(d.ctx, `SELECT count(*) FROM usual_jobs WHERE status = 'pending'`); err != nil {
		return err
	}
	files, err := os.ReadDir(filepath.Join(d.Dir, usualDir))
	if err != nil {
		return err
	}
	for _, f := range files {
		job := strings.TrimSuffix(f.Name(), ".wav")
		n, err := d.db.count(d.ctx, `SELECT count(*) FROM usual_jobs WHERE job_id = $1`, job)
		if err != nil {
			return err
		}
		u.Unrecorded += 1 - n
	}
	d.Say("%d jobs are recorded and nobody will ever do them, %d were done and are not recorded", u.Unsent, u.Unrecorded)
	return nil
}

// messagesIn counts messages, received or not.
func (d *demo) messagesIn(ctx context.Context, urls ...string) (n int, err error) {
	for _, url := range urls {
		out, err := d.API.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
			QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
		})
		if err != nil {
			return 0, fmt.Errorf("look at queue %s: %w", url, err)
		}
		for _, name := range []types.QueueAttributeName{
			types.QueueAttributeNameApproximateNumberOfMessages,
			types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
			types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
		} {
			part, _ := strconv.Atoi(out.Attributes[string(name)])
			n += part
		}
	}
	return n, nil
}
