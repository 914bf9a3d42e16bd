package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
	"unicode/utf8"
)

const (
	// BodyMax bounds what is read from a file or standard input, and what --bodies keeps and
	// fetches. It is more than any server accepts, so the server reports its own limit.
	BodyMax = 64 << 20

	// BatchBytes bounds the sum of a batch: what every SQS accepts, also one from before Amazon
	// raised the limit. A longer message is sent alone.
	BatchBytes = 256 << 10

	// BatchPause is how long a batch that is not full waits for another line.
	BatchPause = 100 * time.Millisecond
)

// ReadBody finds the body of a message: the argument, a file or standard input.
func (a *App) ReadBody(ctx context.Context, args []string, file string) (string, error) {
	switch {
	case len(args) == 1 && file != "":
		return "", Usagef("the body is given twice: as an argument and with --file")
	case file != "":
		f, err := os.Open(file)
		if err != nil {
			return "", Usagef("--file: %v", err)
		}
		defer f.Close()
		return readText(f, file)
	case len(args) == 0:
		return "", Usagef("there is no body; give it as an argument, - for standard input, or with --file")
	case args[0] == "-":
		return UnlessInterrupted(ctx, func() (string, error) {
			return readText(a.Stdin, "standard input")
		})
	}
	return checkBody(args[0], "the body")
}

func readText(r io.Reader, name string) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, BodyMax+1))
	switch {
	case err != nil:
		return "", Codedf(ExitFailed, "read %s: %v", name, err)
	case len(b) > BodyMax:
		return "", Usagef("%s is longer than %s, the maximum of a message", name,
			HumanSize(BodyMax))
	}
	return checkBody(string(b), name)
}

// checkBody refuses what would not arrive unchanged: the SDK replaces bytes that are not UTF-8.
func checkBody(body, name string) (string, error) {
	if body == "" {
		return "", Usagef("%s is empty; a message has at least one character", name)
	}
	if err := CheckUTF8(body); err != nil {
		return "", Usagef("%s %v", name, err)
	}
	return body, nil
}

// CheckUTF8 refuses a body that is not UTF-8. The error continues the name of the body.
func CheckUTF8(body string) error {
	if !utf8.ValidString(body) {
		return errors.New("is not valid UTF-8; encode it, for instance with base64, or send it as a Binary attribute")
	}
	return nil
}
