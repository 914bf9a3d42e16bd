// Package redrivehost runs redrivers in a process: as the command `tenaq redrive run`, or inside a
// server.
//
// It reads their policies and schedules, keeps the pace of their steps, and counts for Prometheus.
// Each redriver runs in a loop of its own, so a queue that cannot be reached does not hold up the
// others. Package redrive decides.
package redrivehost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/records"
	"tenaq/redrive"
)

// A Spec is what is redriven, as a command line or a configuration file has it.
type Spec struct {
	DeadLetter, Parking string // name, URL or ARN
	Target              string // "" is the queue that each message came from
	Schedule            Schedule
	Look                time.Duration // 0 is the default of package redrive
	Policy              redrive.Policy
	CreateParking       bool
}

// Check finds contradictions. It uses neither queues nor records.
func (s *Spec) Check() error {
	cfg := s.config(&Host{Client: &cli.Client{Client: sqs.New(sqs.Options{})},
		store: &cli.RecordStore{}})
	cfg.DeadLetterURL, cfg.ParkingURL, cfg.TargetURL = cli.QueueNameOf(s.DeadLetter),
		cli.QueueNameOf(s.Parking), cli.QueueNameOf(s.Target)
	_, err := redrive.New(cfg)
	return err
}

// config is the configuration of a redriver without the URLs of its queues.
func (s *Spec) config(h *Host) redrive.Config {
	return redrive.Config{
		Client: h.Client.Client, Store: h.store, Claims: h.claims, Policy: s.Policy,
		Interval: s.Schedule.Interval(), Look: s.Look, Logger: h.logger,
	}
}

// A Host has what all redrivers of a process share.
type Host struct {
	Client *cli.Client
	store  records.Store
	place  fmt.Stringer // of the store
	claims *claims.Ledger
	logger *slog.Logger
}

// NewHost makes a host of a client and an open store. It closes the store if it fails.
func NewHost(
	c *cli.Client, store *cli.RecordStore, ledger string, noClaims bool, logger *slog.Logger,
) (*Host, error) {
	h := &Host{Client: c, store: store, place: store.Place, logger: logger}
	if noClaims {
		return h, nil
	}
	var err error
	if h.claims, err = claims.New(claims.Config{Store: store, Prefix: ledger}); err != nil {
		h.Close()
		return nil, cli.Usagef("--ledger: %v", err)
	}
	return h, nil
}

func (h *Host) Close() { _ = h.store.Close() }

// InRecords adds the place of the records to an error.
func (h *Host) InRecords(err error) error {
	return fmt.Errorf("%w (in %s)", err, h.place)
}

func (h *Host) redriver(ctx context.Context, s *Spec) (*redrive.Redriver, error) {
	cfg := s.config(h)
	var err error
	if cfg.DeadLetterURL, err = h.Client.QueueURL(ctx, s.DeadLetter); err != nil {
		return nil, err
	}
	if cfg.ParkingURL, err = h.parking(ctx, s); err != nil {
		return nil, err
	}
	if s.Target != "" {
		if cfg.TargetURL, err = h.Client.QueueURL(ctx, s.Target); err != nil {
			return nil, err
		}
	}
	r, err := redrive.New(cfg)
	if err != nil {
		return nil, cli.Usagef("%v", err)
	}
	return r, nil
}

func (h *Host) parking(ctx context.Context, s *Spec) (string, error) {
	url, err := h.Client.QueueURL(ctx, s.Parking)
	switch {
	case cli.ExitCode(err) != cli.ExitNotFound:
		return url, err
	case !s.CreateParking:
		return "", cli.Codedf(cli.ExitNotFound,
			"%s has no queue %q to park in; create it with --create-parking, "+
				"which makes it keep messages for 14 days, or declare it", h.Client.Endpoint,
			cli.QueueNameOf(s.Parking))
	case cli.IsQueueURL(s.Parking) || cli.IsQueueARN(s.Parking):
		return "", cli.Usagef("--create-parking: give the parking lot by its name, not as %q",
			s.Parking)
	}
	in := &sqs.CreateQueueInput{QueueName: &s.Parking,
		Attributes: cli.ImpliedAttributes(s.Parking,
			map[string]string{"MessageRetentionPeriod": RetentionMost})}
	out, err := cli.Call(ctx, h.Client, h.Client.CreateQueue, in)
	if err != nil {
		return "", h.Client.Explain("create queue", s.Parking, err)
	}
	h.logger.Info("created the parking lot", "parking", s.Parking)
	return *out.QueueUrl, nil
}

// RetentionMost is the longest time for which SQS keeps a message, in seconds: 14 days.
const RetentionMost = "1209600"

// A View is a redriver of one dead-letter queue that only looks, pauses and resumes.
type View struct {
	*Host
	Redriver *redrive.Redriver
	Queue    string // its name
	url      string
}

// View needs no parking lot. Package redrive requires one, but nothing is sent there.
func (h *Host) View(ctx context.Context, s *Spec) (v *View, err error) {
	cfg := s.config(h)
	if cfg.DeadLetterURL, err = h.Client.QueueURL(ctx, s.DeadLetter); err != nil {
		return nil, err
	}
	if s.Target != "" {
		if cfg.TargetURL, err = h.Client.QueueURL(ctx, s.Target); err != nil {
			return nil, err
		}
	}
	cfg.ParkingURL = "https://parking.invalid/none"
	if strings.HasSuffix(cfg.DeadLetterURL, ".fifo") {
		cfg.ParkingURL += ".fifo"
	}
	v = &View{Host: h, Queue: cli.QueueNameOf(cfg.DeadLetterURL), url: cfg.DeadLetterURL}
	if v.Redriver, err = redrive.New(cfg); err != nil {
		return nil, cli.Usagef("%v", err)
	}
	return v, nil
}

// PlanLook is how long a plan hides the messages that it looks at, at most: it gives them back at
// its end. It is shorter than that of a step, because a step does not see those that it cannot give
// back.
const PlanLook = 30 * time.Second

// Plan says what the next step would do. It receives the dead letters that it looks at.
func (v *View) Plan(ctx context.Context) (redrive.Report, error) {
	bounded, cancel := context.WithTimeoutCause(ctx,
		max(v.Redriver.Look(), v.Client.Timeout), cli.ErrNoAnswer)
	defer cancel()
	r, err := v.Redriver.Plan(bounded)
	return r, ExplainStep(v.Client, v.Queue, cli.WithCause(bounded, err))
}

// ExplainStep makes one sentence of the error of a step: the words of the library, without the
// wrappers of the SDK.
func ExplainStep(c *cli.Client, queue string, err error) error {
	var (
		operation *smithy.OperationError
		answer    smithy.APIError
	)
	switch {
	case err == nil || !errors.As(err, &operation):
		return err // of the records, or of this program
	case errors.As(err, &answer):
		kind := cli.ErrorKind(answer)
		text := strings.TrimSuffix(answer.ErrorMessage(), ".") + " (" + kind + ")"
		return cli.Codedf(cli.AnswerCode(kind), "%s",
			strings.Replace(err.Error(), operation.Error(), text, 1))
	}
	return c.Explain("redrive", queue, err)
}
