package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"tenaq/internal/cli"
	"tenaq/outbox"
)

// linesMax bounds the bytes that one transaction writes.
const linesMax = 64 << 20

// A line is a row as a line of JSON.
type line struct {
	ID, Queue, Key, Type, Body, Group, Dedup string
	Headers                                  map[string]string
	After                                    time.Time
	Generation                               int
}

func readLines(r io.Reader) (messages []outbox.Message, err error) {
	text, err := io.ReadAll(io.LimitReader(r, linesMax+1))
	switch {
	case err != nil:
		return nil, cli.Codedf(cli.ExitFailed, "read standard input: %v", err)
	case len(text) > linesMax:
		return nil, cli.Usagef("standard input is longer than %s, which is too much for one transaction; write it in parts", cli.HumanSize(linesMax))
	}
	number := 0
	for text := range bytes.Lines(text) {
		number++
		if text = bytes.TrimSpace(text); len(text) == 0 {
			continue
		}
		m, err := readLine(text)
		if err != nil {
			return nil, cli.Usagef("line %d: %v; nothing was written", number, err)
		}
		messages = append(messages, m)
	}
	if len(messages) == 0 {
		return nil, cli.Usagef("standard input has no rows; write one JSON object per line, such as %s", `{"queue": "orders", "body": "hello"}`)
	}
	return messages, nil
}

func readLine(text []byte) (outbox.Message, error) {
	var l line
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return outbox.Message{}, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if d.More() {
		return outbox.Message{}, errors.New("it has more than one value")
	}
	m := outbox.Message{
		ID: l.ID, Queue: l.Queue, Key: l.Key, Type: l.Type, Body: l.Body, Group: l.Group, Dedup: l.Dedup,
		Headers: l.Headers, After: l.After, Generation: l.Generation,
	}
	return m, m.Check()
}
