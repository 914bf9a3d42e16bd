package credentials

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"tenaq/internal/door/policy"
)

// Limits on what a file may hold. The secrets that AWS makes up have 40 characters.
const (
	fileMax   = 1 << 20 // bytes
	secretMin = 16      // characters
	secretMax = 4 << 10 // session tokens are long
)

var (
	idPattern   = regexp.MustCompile(`^[A-Za-z0-9_-]{4,128}$`)
	namePattern = regexp.MustCompile(`^[A-Za-z0-9_+=,.@-]{1,64}$`)
)

// check refuses a key that would be no key.
func (k *Key) check() error {
	switch {
	case !idPattern.MatchString(k.ID):
		return fmt.Errorf("id %q must be 4 to 128 letters, digits, hyphens and underscores", k.ID)
	case !policy.IsAccount(k.Account):
		return fmt.Errorf("account %q is not twelve digits", k.Account)
	case !namePattern.MatchString(k.Name):
		return fmt.Errorf("name %q must be up to 64 letters, digits and characters of +=,.@-_",
			k.Name)
	}
	if err := checkSecret("secret", k.Secret); err != nil {
		return err
	}
	if k.Token.Reveal() != "" {
		return checkSecret("token", k.Token)
	}
	return nil
}

func checkSecret(what string, s Secret) error {
	switch text := s.Reveal(); {
	case len(text) < secretMin:
		return fmt.Errorf("the %s has %d characters, which can be guessed: use at least %d, for example from openssl rand -base64 30", what, len(text), secretMin)
	case len(text) > secretMax:
		return fmt.Errorf("the %s has more than %d characters", what, secretMax)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("the %s must be printable ASCII without spaces", what)
	}
	return nil
}

// A document is a credentials file that is being read, token by token and not into a struct: so
// every error has its line, and a member that is unknown or given twice is an error.
type document struct {
	cfg    Config
	source []byte
	d      *json.Decoder

	keys  map[string]*Key
	lines map[string]int // of ids
	proxy *Proxy         // nil for none
}

func readFile(cfg Config) (*loaded, error) {
	text, err := readPrivate(cfg.File)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	doc := &document{cfg: cfg, source: text, d: json.NewDecoder(bytes.NewReader(text)),
		keys: map[string]*Key{}, lines: map[string]int{}}
	doc.d.UseNumber()
	if err := doc.read(); err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	return &loaded{doc.keys, doc.proxy}, nil
}

// at makes a complaint about a line.
func (doc *document) at(line int, format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", doc.cfg.File, line, fmt.Sprintf(format, args...))
}

func (doc *document) lineOf(offset int64) int {
	return 1 + bytes.Count(doc.source[:min(offset, int64(len(doc.source)))], []byte("\n"))
}

// line is that of the token that was read last.
func (doc *document) line() int { return doc.lineOf(doc.d.InputOffset()) }

func (doc *document) token() (json.Token, error) {
	t, err := doc.d.Token()
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return nil, doc.at(doc.lineOf(syntax.Offset), "%v: correct the JSON", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, doc.at(doc.line(), "the file ends early: complete the JSON")
	case err != nil:
		return nil, doc.at(doc.line(), "%v", err)
	}
	return t, nil
}

func (doc *document) expect(delim json.Delim, what string) error {
	t, err := doc.token()
	if err == nil && t != delim {
		err = doc.at(doc.line(), "%s", what)
	}
	return err
}

// members calls read for each member of an object whose { was read, behind its name.
func (doc *document) members(known []string, read func(name string) error) error {
	seen := map[string]int{}
	for doc.d.More() {
		t, err := doc.token()
		if err != nil {
			return err
		}
		name, _ := t.(string) // JSON has no other names
		switch line := doc.line(); {
		case !slices.Contains(known, name):
			return doc.at(line, "unknown member %q: the members are %s", name,
				strings.Join(known, ", "))
		case seen[name] > 0:
			return doc.at(line, "%q is given twice; the first is in line %d", name, seen[name])
		default:
			seen[name] = line
		}
		if err := read(name); err != nil {
			return err
		}
	}
	_, err := doc.token() // }
	return err
}

func (doc *document) read() error {
	const form = `the file must be an object with the list "credentials"`
	if err := doc.expect('{', form); err != nil {
		return err
	}
	err := doc.members([]string{"credentials", "proxy"}, func(name string) error {
		if name == "proxy" {
			return doc.readProxy()
		}
		return doc.list("credentials must be a list", doc.readKey)
	})
	if err != nil {
		return err
	}
	if _, err := doc.d.Token(); !errors.Is(err, io.EOF) {
		return doc.at(doc.line(), "there is text after the object: remove it")
	}
	if len(doc.keys) == 0 {
		return doc.at(1, "the file has no credentials, so every request would be refused: add some, or run without the file")
	}
	return doc.completeProxy()
}

// list reads a list whose entries read reads.
func (doc *document) list(form string, read func() error) error {
	if err := doc.expect('[', form); err != nil {
		return err
	}
	for doc.d.More() {
		if err := read(); err != nil {
			return err
		}
	}
	_, err := doc.token() // ]
	return err
}

// text reads a string that is not empty.
func (doc *document) text(name string) (string, error) {
	t, err := doc.token()
	if err != nil {
		return "", err
	}
	text, ok := t.(string)
	if !ok || text == "" {
		return "", doc.at(doc.line(), "%s must be a string that is not empty", name)
	}
	return text, nil
}

var keyMembers = []string{"id", "secret", "secret-file", "account", "name", "allow", "token",
	"expires"}

func (doc *document) readKey() error {
	if err := doc.expect('{', "an entry of credentials must be an object"); err != nil {
		return err
	}
	line := doc.line()
	values := map[string]string{}
	k := &Key{}
	err := doc.members(keyMembers, func(name string) (err error) {
		if name == "allow" {
			k.Rights, err = doc.readAllow()
			for _, pattern := range k.Rights {
				k.allow = append(k.allow, strings.ToLower(pattern))
			}
			return err
		}
		values[name], err = doc.text(name)
		return err
	})
	if err != nil {
		return err
	}
	if err := doc.fill(k, values); err != nil {
		if id := values["id"]; id != "" {
			err = fmt.Errorf("%s: %w", id, err)
		}
		return doc.at(line, "%v", err)
	}
	if first, ok := doc.lines[k.ID]; ok {
		return doc.at(line, "the id %s is used twice; the first is in line %d", k.ID, first)
	}
	for _, other := range doc.keys {
		// The key id is not signed, so the holder of one key could pass for the other.
		if other.Secret.Reveal() == k.Secret.Reveal() {
			return doc.at(line, "%s has the same secret as %s: give each key its own", k.ID,
				other.ID)
		}
	}
	doc.keys[k.ID], doc.lines[k.ID] = k, line
	return nil
}

// fill makes a key of the texts of an entry.
func (doc *document) fill(k *Key, values map[string]string) error {
	secret, file := values["secret"], values["secret-file"]
	switch {
	case values["id"] == "":
		return errors.New("an entry needs an id")
	case (secret == "") == (file == ""):
		return errors.New("an entry needs either secret or secret-file")
	case k.allow == nil:
		return errors.New(`an entry must list its rights: add allow, such as ["sqs:SendMessage"] or ["*"]`)
	}
	if file != "" {
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(doc.cfg.File), file)
		}
		text, err := readPrivate(file)
		if err != nil {
			return fmt.Errorf("secret-file: %w", err)
		}
		secret = strings.TrimSpace(string(text))
	}
	k.ID, k.Secret, k.Token = values["id"], NewSecret(secret), NewSecret(values["token"])
	k.Account = cmp.Or(values["account"], doc.cfg.Account)
	k.Name = cmp.Or(values["name"], k.ID)
	if text := values["expires"]; text != "" {
		var err error
		if k.Expires, err = time.Parse(time.RFC3339, text); err != nil {
			return fmt.Errorf("expires: %q is not a time such as 2027-01-31T00:00:00Z", text)
		}
	}
	return k.check()
}

func (doc *document) readAllow() ([]string, error) {
	const form = `allow must be a list of patterns, such as ["sqs:SendMessage", "sqs:Receive*"]`
	var patterns []string
	err := doc.list(form, func() error {
		t, err := doc.token()
		if err != nil {
			return err
		}
		pattern, ok := t.(string)
		if !ok {
			return doc.at(doc.line(), form)
		}
		if err := checkPattern(pattern, doc.cfg.Actions); err != nil {
			return doc.at(doc.line(), "%v", err)
		}
		patterns = append(patterns, pattern)
		return nil
	})
	if err == nil && patterns == nil {
		err = doc.at(doc.line(), form)
	}
	return patterns, err
}

// readPrivate reads a file that only this program's user can read. A group may read a file of
// another user: systems hand out secrets in this way if the user of a service must not change them.
func readPrivate(path string) ([]byte, error) {
	// not to wait for the writer of a pipe
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat() // of what was opened, whatever the path names by now
	if err != nil {
		return nil, err
	}
	open := fs.FileMode(0o077)
	if isForeign(info) {
		open = 0o037
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", path)
	case info.Mode()&open != 0:
		return nil, fmt.Errorf("other users can read or change %s (mode %04o): run chmod 600 %s",
			path, info.Mode().Perm(), path)
	case info.Size() > fileMax:
		return nil, fmt.Errorf("%s is larger than 1 MiB", path)
	}
	return io.ReadAll(io.LimitReader(f, fileMax))
}
