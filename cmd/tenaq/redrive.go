package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"
	"github.com/spf13/cobra"

	"tenaq/claims"
	"tenaq/records"
	"tenaq/redrive"
)

func newRedriveCmd(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "redrive",
		Short: "Bring dead letters back at the pace their consumer can bear",
		Long: `Bring dead letters back to the queue they came from, at the pace that their consumer can bear, and put aside
what would only come back again.

Three queues belong together: the one that is worked on, its dead-letter queue, and a parking lot, which no
program reads. A redriver sends a few dead letters back, finds out whether they succeed, and then sends more
of them, or less, or none while the consumer is sick. What fails again and again although others succeed is
parked with its reason, for a person to look at.

"tenaq move" moves everything at once and asks nobody; it is for a consumer that is known to be well.

` + recordsHelp,
		Example: `  tenaq redrive plan orders-dlq
  tenaq redrive run orders-dlq --parking orders-parking
  tenaq redrive status orders-dlq
  tenaq redrive parked list orders-parking`,
	}
	f := &redriveFlags{}
	f.clientFlags.register(cmd)
	f.recordsFlags.register(cmd)
	cmd.AddCommand(
		newRedriveRunCmd(a, f),
		newRedrivePlanCmd(a, f),
		newRedriveStatusCmd(a, f),
		newRedrivePauseCmd(a, f),
		newRedriveResumeCmd(a, f),
		newRedriveParkedCmd(a, f),
	)
	asGroup(cmd)
	return cmd
}

// redriveFlags say where the queues and the records of a redriver are.
type redriveFlags struct {
	clientFlags
	recordsFlags

	ledger   string
	noClaims bool
}

// registerClaims adds the flags of commands that ask what has become of messages.
func (f *redriveFlags) registerClaims(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.ledger, "ledger", "claim/", "`prefix` of the keys of the ledger in which the workers claim their work")
	flags.BoolVar(&f.noClaims, "no-claims", false, "the workers keep no ledger: learn outcomes from the server, or from what does not come back")
}

// A redriveSpec says what is to be redriven, as a command line or a configuration file has it.
type redriveSpec struct {
	deadLetter, parking string // name, URL or ARN
	target              string // "" is the queue that each message came from
	schedule            schedule
	look                time.Duration // 0 leaves it to package redrive
	policy              redrive.Policy
	createParking       bool
}

// check finds contradictions. It asks nothing of queues and records.
func (s *redriveSpec) check() error {
	cfg := s.config(&redriveHost{client: &client{Client: sqs.New(sqs.Options{})}, store: &recordStore{}})
	cfg.DeadLetterURL, cfg.ParkingURL, cfg.TargetURL = queueNameOf(s.deadLetter), queueNameOf(s.parking), queueNameOf(s.target)
	_, err := redrive.New(cfg)
	return err
}

// config is the configuration of a redriver but for the URLs of its queues.
func (s *redriveSpec) config(h *redriveHost) redrive.Config {
	return redrive.Config{
		Client: h.client.Client, Store: h.store, Claims: h.claims, Policy: s.policy,
		Interval: s.schedule.interval(), Look: s.look, Logger: h.logger,
	}
}

// A redriveHost has what all redrivers of a process share.
type redriveHost struct {
	client *client
	store  records.Store
	place  fmt.Stringer // of the store
	claims *claims.Ledger
	logger *slog.Logger
}

// newRedriveHost makes one of a client and an open store.
func newRedriveHost(c *client, store *recordStore, ledger string, noClaims bool, logger *slog.Logger) (*redriveHost, error) {
	h := &redriveHost{client: c, store: store, place: store.place, logger: logger}
	if noClaims {
		return h, nil
	}
	var err error
	if h.claims, err = claims.New(store, claims.Config{Prefix: ledger}); err != nil {
		return nil, usagef("--ledger: %v", err)
	}
	return h, nil
}

// host makes a host, with the store that open opens: who only looks wants one that is there.
func (f *redriveFlags) host(ctx context.Context, logger *slog.Logger, open func(context.Context) (*recordStore, error)) (*redriveHost, error) {
	c, err := f.connect(ctx)
	if err != nil {
		return nil, err
	}
	store, err := open(ctx)
	if err != nil {
		return nil, err
	}
	h, err := newRedriveHost(c, store, f.ledger, f.noClaims, logger)
	if err != nil {
		_ = store.Close()
		return nil, err
	}
	return h, nil
}

func (h *redriveHost) close() { _ = h.store.Close() }

// inRecords adds to an error of the records where they are.
func (h *redriveHost) inRecords(err error) error {
	return fmt.Errorf("%w (in %s)", err, h.place)
}

// redriver finds the queues of a redriver that is to work.
func (h *redriveHost) redriver(ctx context.Context, s *redriveSpec) (*redrive.Redriver, error) {
	cfg := s.config(h)
	var err error
	if cfg.DeadLetterURL, err = h.client.queueURL(ctx, s.deadLetter); err != nil {
		return nil, err
	}
	if cfg.ParkingURL, err = h.parking(ctx, s); err != nil {
		return nil, err
	}
	if s.target != "" {
		if cfg.TargetURL, err = h.client.queueURL(ctx, s.target); err != nil {
			return nil, err
		}
	}
	r, err := redrive.New(cfg)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return r, nil
}

// parking finds the parking lot, or makes it.
func (h *redriveHost) parking(ctx context.Context, s *redriveSpec) (string, error) {
	url, err := h.client.queueURL(ctx, s.parking)
	switch {
	case exitCode(err) != exitNotFound:
		return url, err
	case !s.createParking:
		return "", codedf(exitNotFound, "%s has no queue %q to park in; create it with --create-parking, which has it keep messages for 14 days, "+
			"or declare it", h.client.endpoint, queueNameOf(s.parking))
	case isQueueURL(s.parking) || isQueueARN(s.parking):
		return "", usagef("--create-parking: give the parking lot by its name, not as %q", s.parking)
	}
	in := &sqs.CreateQueueInput{QueueName: &s.parking, Attributes: impliedAttributes(s.parking, map[string]string{"MessageRetentionPeriod": retentionMost})}
	out, err := call(ctx, h.client, h.client.CreateQueue, in)
	if err != nil {
		return "", h.client.explain("create queue", s.parking, err)
	}
	h.logger.Info("created the parking lot", "parking", s.parking)
	return *out.QueueUrl, nil
}

// retentionMost is the longest that SQS keeps a message, in seconds: 14 days.
const retentionMost = "1209600"

// A redriveView is a redriver of one dead-letter queue that only looks, pauses and resumes.
type redriveView struct {
	*redriveHost
	redriver *redrive.Redriver
	queue    string // its name
	url      string
}

// view opens what is there. The queue has to exist: by a slip in its name somebody would pause nothing.
func (f *redriveFlags) view(ctx context.Context, a *app, s *redriveSpec) (*redriveView, error) {
	h, err := f.host(ctx, newRedriveTeller(a).logger, f.openExisting)
	if err != nil {
		return nil, err
	}
	v, err := h.view(ctx, s)
	if err != nil {
		h.close()
	}
	return v, err
}

// view needs no parking lot. Package redrive wants one all the same, and nothing is sent there.
func (h *redriveHost) view(ctx context.Context, s *redriveSpec) (v *redriveView, err error) {
	cfg := s.config(h)
	if cfg.DeadLetterURL, err = h.client.queueURL(ctx, s.deadLetter); err != nil {
		return nil, err
	}
	if s.target != "" {
		if cfg.TargetURL, err = h.client.queueURL(ctx, s.target); err != nil {
			return nil, err
		}
	}
	cfg.ParkingURL = "https://parking.invalid/none"
	if strings.HasSuffix(cfg.DeadLetterURL, ".fifo") {
		cfg.ParkingURL += ".fifo"
	}
	v = &redriveView{redriveHost: h, queue: queueNameOf(cfg.DeadLetterURL), url: cfg.DeadLetterURL}
	if v.redriver, err = redrive.New(cfg); err != nil {
		return nil, usagef("%v", err)
	}
	return v, nil
}

// explainStep makes one sentence of what went wrong in a step: what the library says, without the wrappers of
// the SDK.
func (c *client) explainStep(queue string, err error) error {
	var (
		operation *smithy.OperationError
		answer    smithy.APIError
	)
	switch {
	case err == nil || !errors.As(err, &operation):
		return err // of the records, or of this program
	case errors.As(err, &answer):
		kind := errorKind(answer)
		text := strings.TrimSuffix(answer.ErrorMessage(), ".") + " (" + kind + ")"
		return codedf(answerCode(kind), "%s", strings.Replace(err.Error(), operation.Error(), text, 1))
	}
	return c.explain("redrive", queue, err)
}
