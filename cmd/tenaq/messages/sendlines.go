package messages

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/internal/work/sqslimits"
	"tenaq/offload"
)

// A line of the input.
type line struct {
	number     int
	end        int64 // offset in the input, roughly: line breaks may be longer than one byte
	text       string
	attributes map[string]types.MessageAttributeValue
	err        error // the input ended: io.EOF, or why it could not be read
}

type lineSender struct {
	*cli.App
	c      *cli.Client
	url    string
	letter letter
	bodies cli.Keeper

	batch []line
	bytes int

	sent, failed int
	err          error // what ended it early

	progress *cli.Progress
	input    int64 // size of the input in bytes; 0 when it is not known
}

func runSendLines(
	a *cli.App, cmd *cobra.Command, f *sendFlags, l letter, bodies *offload.Offloader,
	args []string,
) error {
	switch {
	case len(args) > 1 && args[1] != "-" || f.file != "":
		return cli.Usagef("--lines reads standard input; leave out the body and --file")
	case l.dedupID != nil:
		return cli.Usagef("--dedup-id would make every line a duplicate of the first; use a queue with ContentBasedDeduplication")
	}
	return f.OnQueue(func(ctx context.Context, c *cli.Client, url string, _ []string) error {
		s := &lineSender{App: a, c: c, url: url, letter: l, bodies: cli.NewKeeper(bodies, url, nil),
			progress: cli.NewProgress(a.Stderr, "sending to "+cli.QueueNameOf(url)),
			input:    inputSize(a.Stdin)}
		// A progress bar would disturb typing.
		s.progress.Terminal = s.progress.Terminal && !cli.IsTerminal(a.Stdin)
		s.run(ctx)
		s.progress.Done()
		return s.verdict()
	})(cmd, args)
}

// inputSize returns how many bytes are left to read from r; 0 when that is not known, as of a pipe.
func inputSize(r io.Reader) int64 {
	f, ok := r.(*os.File)
	if !ok {
		return 0
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0
	}
	return max(0, info.Size()-at)
}

// bar shows how much was sent, how fast, and how long the rest of the input takes.
func (s *lineSender) bar(end int64, took time.Duration) string {
	text := cli.Counted(s.sent, "line", "lines") + " sent" + cli.RateText(int64(s.sent), took)
	if s.failed > 0 {
		text += fmt.Sprintf(", %d failed", s.failed)
	}
	if s.input == 0 {
		return text
	}
	return cli.Bar(int(end), int(s.input)) + " " + text + cli.LeftText(end, s.input, took)
}

// run sends lines until the input ends, or until a failure requires it to stop.
func (s *lineSender) run(ctx context.Context) {
	lines := make(chan line)
	go readLines(ctx, s.Stdin, lines)
	pause := time.NewTimer(cli.BatchPause)
	defer pause.Stop()
	for s.err == nil {
		pause.Reset(cli.BatchPause)
		select {
		case l := <-lines:
			if l.err != nil {
				s.flush(ctx)
				if !errors.Is(l.err, io.EOF) && s.err == nil {
					s.err = fmt.Errorf("read line %d: %w", l.number, l.err)
				}
				return
			}
			s.add(ctx, l)
		case <-pause.C:
			s.flush(ctx)
		case <-ctx.Done():
			s.err = errors.New("interrupted")
		}
	}
}

// readLines sends the lines of r that are not empty, then what ended them.
func readLines(ctx context.Context, r io.Reader, lines chan<- line) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, cli.BodyMax)
	give := func(l line) bool {
		select {
		case lines <- l:
			return true
		case <-ctx.Done():
			return false
		}
	}
	number, end := 1, int64(0)
	for ; in.Scan(); number++ {
		text := in.Text()
		end += int64(len(text)) + 1
		if text != "" && !give(line{number: number, end: end, text: text}) {
			return
		}
	}
	give(line{number: number, err: cmp.Or(in.Err(), io.EOF)})
}

func (s *lineSender) add(ctx context.Context, l line) {
	err := cli.CheckUTF8(l.text)
	if err == nil {
		l.text, l.attributes, err = s.bodies.Keep(ctx, l.text, s.letter.attributes)
	}
	if err != nil {
		s.flush(ctx) // earlier lines first
		if s.err == nil {
			s.fail(l, err)
		}
		return
	}
	size := len(l.text) + cli.AttributesSize(l.attributes)
	if s.bytes+size > cli.BatchBytes {
		s.flush(ctx)
	}
	if s.err != nil {
		return
	}
	s.batch = append(s.batch, l)
	s.bytes += size
	if len(s.batch) == sqslimits.BatchMax {
		s.flush(ctx)
	}
}

// flush sends the batch. Entries carry the number of their line as their id.
func (s *lineSender) flush(ctx context.Context) {
	if len(s.batch) == 0 {
		return
	}
	batch := s.batch
	s.batch, s.bytes = nil, 0

	in := &sqs.SendMessageBatchInput{QueueUrl: &s.url}
	byID := map[string]line{}
	for _, l := range batch {
		id := strconv.Itoa(l.number)
		byID[id] = l
		in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{
			Id: &id, MessageBody: aws.String(l.text), MessageAttributes: l.attributes,
			DelaySeconds: s.letter.delay, MessageGroupId: s.letter.group,
		})
	}
	out, err := cli.Call(ctx, s.c, s.c.SendMessageBatch, in, s.letter.zeros.Option())
	if err != nil {
		s.err = fmt.Errorf("lines %d to %d: %w", batch[0].number, batch[len(batch)-1].number,
			explainSend(s.c, s.url, err))
		return
	}
	again := strings.Split(duplicates(out.ResultMetadata), ",")
	for _, e := range out.Successful {
		s.sent++
		s.report(byID[aws.ToString(e.Id)], e, slices.Contains(again, aws.ToString(e.Id)))
		delete(byID, aws.ToString(e.Id))
	}
	for _, e := range out.Failed {
		id := aws.ToString(e.Id)
		s.fail(byID[id], entryError(e))
		delete(byID, id)
	}
	for _, l := range byID {
		s.fail(l, errors.New("the response of the server does not mention it"))
	}
	s.progress.Line("%s", s.bar(batch[len(batch)-1].end, time.Since(s.progress.Began)))
}

func (s *lineSender) report(l line, e types.SendMessageBatchResultEntry, duplicate bool) {
	if cli.IsTerminal(s.Stdout) {
		s.progress.Done() // otherwise the id would follow the bar
	}
	id := aws.ToString(e.MessageId)
	var err error
	if duplicate && !s.JSON {
		s.progress.Done()
		s.Note("line %d: a duplicate of an earlier message", l.number)
	}
	if s.JSON {
		err = s.PrintJSONLine(sent{MessageID: id, MD5: aws.ToString(e.MD5OfMessageBody),
			SequenceNumber: aws.ToString(e.SequenceNumber), Line: l.number, Duplicate: duplicate})
	} else {
		err = s.PrintText(id + "\n")
	}
	if err != nil && s.err == nil {
		s.err = fmt.Errorf("report line %d, which was sent: %w", l.number, err)
	}
}

func (s *lineSender) fail(l line, err error) {
	s.failed++
	s.progress.Done()
	s.Complain(fmt.Errorf("line %d: %w", l.number, err))
	if s.letter.group != nil && s.err == nil {
		s.err = fmt.Errorf("line %d was not sent, and later lines of its group must not overtake it", l.number)
	}
}

func (s *lineSender) verdict() error {
	switch {
	case s.err == nil && s.failed == 0:
		return nil
	case s.err == nil && s.sent == 0:
		return cli.Codedf(cli.ExitFailed, "%s not sent; see above",
			cli.Counted(s.failed, "line was", "lines were"))
	case s.err == nil:
		return cli.Codedf(cli.ExitPartly, "%d sent, %d not sent; see above", s.sent, s.failed)
	case s.sent == 0:
		return s.err
	}
	return cli.Codedf(cli.ExitPartly, "stopped after %s: %w",
		cli.Counted(s.sent, "sent line", "sent lines"), s.err)
}
