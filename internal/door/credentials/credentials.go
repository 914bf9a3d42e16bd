// Package credentials holds the access keys that requests are signed with, their accounts and their
// rights.
//
// Keys come from a JSON file, or a single one from the environment:
//
//	{"credentials": [
//	  {"id": "TQORDERS01", "secret-file": "/run/secrets/orders", "name": "orders", "allow": ["sqs:SendMessage"]},
//	  {"id": "TQBILLING1", "secret": "...", "name": "billing", "allow": ["sqs:Receive*", "sqs:DeleteMessage", "sqs:Get*"]},
//	  {"id": "TQBILLING2", "secret": "...", "name": "billing", "allow": ["sqs:*"], "expires": "2027-01-31T00:00:00Z"}
//	]}
//
// A user may have several keys. To replace a key, add the new one, move the programs to it, and
// remove the old one. The file is JSON and not YAML: a file that grants rights should have as few
// ways as possible to mean something else than it says.
//
// What it guarantees:
//
//   - A file is loaded completely or rejected. Anything in it that is not understood is an error
//     with its line.
//   - Files that other users could read are rejected.
//   - A file that would let strangers name a user is rejected. [CONSOLE-20]
//   - Nothing prints a secret: not fmt, not slog, not encoding/json, not an error.
//
// It leaves the verification of signatures to sigv4, and the decision about a request to auth.
package credentials

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Config says where keys come from: a file, or a single key. With neither there are none.
type Config struct {
	// File is the path of the JSON file.
	File string

	// ID and Secret are the single key. It may do everything.
	ID     string
	Secret Secret

	// Account is whose keys are those that name none, twelve digits; 000000000000 when empty.
	Account string

	// Actions are all actions that there are, such as sqs:SendMessage. A pattern that allows none
	// of them is refused as misspelt; when empty that is not checked.
	Actions []string

	// TLS says that the server has a certificate, so that a proxy may be outside private networks.
	TLS bool
}

// Environment takes from the environment what cfg does not say yet: TENAQ_CREDENTIALS, the path of
// the file, or TENAQ_ACCESS_KEY_ID and TENAQ_SECRET_ACCESS_KEY.
func (c *Config) Environment(getenv func(string) string) {
	if c.File == "" && c.ID == "" {
		c.File, c.ID, c.Secret = getenv("TENAQ_CREDENTIALS"), getenv("TENAQ_ACCESS_KEY_ID"),
			NewSecret(getenv("TENAQ_SECRET_ACCESS_KEY"))
	}
}

// A Key is an access key. Only its latest use changes once it is there.
type Key struct {
	ID      string
	Account string    // twelve digits
	Name    string    // of the user
	Expires time.Time // zero for never
	Secret  Secret
	Token   Secret   // session token; empty for a key without one
	Rights  []string // patterns of actions, as the file has them

	allow []string      // patterns in lower case
	used  *atomic.Int64 // Unix time of the latest use; nil for keys that are not listed
}

// Use remembers that a request has proved the key. In a second in which there was a use already it
// writes nothing, so that the processors that read the key share it. [V1-23]
func (k *Key) Use() {
	if k.used == nil {
		return
	}
	if now := time.Now().Unix(); k.used.Load() != now {
		k.used.Store(now)
	}
}

// LastUse is the time of the latest use since the start, to the second; zero for none.
func (k *Key) LastUse() (at time.Time) {
	if seconds := k.used.Load(); seconds != 0 {
		at = time.Unix(seconds, 0).UTC()
	}
	return at
}

// Allows reports whether the key may do an action, such as sqs:SendMessage. [AUTH-38]
func (k *Key) Allows(action string) bool { return allows(k.allow, action) }

// ARN names the user, as errors show it.
func (k *Key) ARN() string { return "arn:aws:iam::" + k.Account + ":user/" + k.Name }

// UserID is the other name of the user, as SQS shows who sent a message. It is the same for all
// keys of a user.
func (k *Key) UserID() string {
	sum := sha256.Sum256([]byte(k.ARN()))
	return "AIDA" + base32.StdEncoding.EncodeToString(sum[:])[:17]
}

func (k *Key) String() string { return k.ID + " of " + k.ARN() }

// LogValue shows a key in a log.
func (k *Key) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", k.ID), slog.String("account", k.Account),
		slog.String("name", k.Name))
}

// A Set is the keys there are. It may be used by any number of goroutines, also while it is
// reloaded.
type Set struct {
	cfg Config
	has atomic.Pointer[loaded]
	own atomic.Pointer[Key]
}

// loaded is what was read together, so that what belongs together is used together.
type loaded struct {
	keys  map[string]*Key
	proxy *Proxy // nil for none
}

// Open reads the keys. The set is nil when cfg names none. [AUTH-37]
func Open(cfg Config) (*Set, error) {
	cfg.Account = cmp.Or(cfg.Account, "000000000000")
	single := cfg.ID != "" || cfg.Secret.Reveal() != ""
	switch {
	case cfg.File != "" && single:
		return nil, errors.New("credentials: both a file and a single access key are set: use one of them")
	case cfg.File == "" && !single:
		return nil, nil
	}
	s := &Set{cfg: cfg}
	if err := s.take(); err != nil {
		return nil, err
	}
	return s, nil
}

// Reload reads the keys again. When there is anything wrong, those of before stay. [AUTH-39]
func (s *Set) Reload() error {
	if err := s.take(); err != nil {
		return fmt.Errorf("%w; the earlier credentials stay in use", err)
	}
	return nil
}

// take reads the keys and uses them. One that stays keeps its latest use, which requests that still
// have the key of before go on to write. [V1-23]
func (s *Set) take() error {
	has, err := s.read()
	if err != nil {
		return err
	}
	before := s.has.Load()
	for id, k := range has.keys { // order does not matter: each key for itself
		k.used = new(atomic.Int64)
		if before == nil {
			continue
		}
		if old := before.keys[id]; old != nil && old.Secret.Reveal() == k.Secret.Reveal() {
			k.used = old.used
		}
	}
	s.has.Store(has)
	return nil
}

// Own makes a key with which this process asks itself. It may do everything in the account, is
// nowhere but in memory, and is there until the process ends, or Own is called again.
func (s *Set) Own(name string) *Key {
	k := &Key{ID: "TQOWN" + rand.Text(), Account: s.cfg.Account, Name: name,
		Secret: NewSecret(rand.Text() + rand.Text()), allow: []string{"*"}}
	s.own.Store(k)
	return k
}

// Find returns the key with an id, nil when there is none.
func (s *Set) Find(id string) *Key {
	if k := s.own.Load(); k != nil && k.ID == id {
		return k
	}
	return s.has.Load().keys[id]
}

// Keys returns the keys by account, user and id. That of Own is not among them.
func (s *Set) Keys() []*Key {
	return slices.SortedFunc(maps.Values(s.has.Load().keys), func(a, b *Key) int {
		return cmp.Or(strings.Compare(a.Account, b.Account), strings.Compare(a.Name, b.Name),
			strings.Compare(a.ID, b.ID))
	})
}

// Proxy returns the proxy whose users may use the console; nil for none.
func (s *Set) Proxy() *Proxy { return s.has.Load().proxy }

// Len returns the number of keys.
func (s *Set) Len() int { return len(s.has.Load().keys) }

func (s *Set) String() string { return fmt.Sprintf("%d credentials", s.Len()) }

func (s *Set) read() (*loaded, error) {
	if s.cfg.File != "" {
		return readFile(s.cfg)
	}
	k := &Key{ID: s.cfg.ID, Secret: s.cfg.Secret, Account: s.cfg.Account, Name: s.cfg.ID,
		Rights: []string{"*"}, allow: []string{"*"}}
	if err := k.check(); err != nil {
		return nil, fmt.Errorf("credentials: %w; both TENAQ_ACCESS_KEY_ID and TENAQ_SECRET_ACCESS_KEY must be set, or neither", err)
	}
	return &loaded{keys: map[string]*Key{k.ID: k}}, nil
}
