package outbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"tenaq/internal/cli"
	"tenaq/outbox"
)

// linesMax bounds the bytes that one transaction writes.
const linesMax = 64 << 20

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

// readLine reads a row, whose members are called as the fields of a message.
func readLine(text []byte) (m outbox.Message, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return m, errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if d.More() {
		return m, errors.New("it has more than one value")
	}
	return m, m.Check()
}
