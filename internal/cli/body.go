package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"unicode/utf8"
)

// ReadBody finds the body of the one message that is to be sent.
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
		return "", Usagef("%s is longer than %s, and so than any message", name, HumanSize(BodyMax))
	}
	return checkBody(string(b), name)
}

// checkBody refuses what would be damaged on the way: the SDK would replace bytes that are not
// UTF-8.
func checkBody(body, name string) (string, error) {
	if body == "" {
		return "", Usagef("%s is empty; a message has at least one character", name)
	}
	if err := CheckUTF8(body); err != nil {
		return "", Usagef("%s %v", name, err)
	}
	return body, nil
}

func CheckUTF8(body string) error {
	if !utf8.ValidString(body) {
		return fmt.Errorf("is not valid UTF-8; encode it, for instance with base64, or send it as a Binary attribute")
	}
	return nil
}
