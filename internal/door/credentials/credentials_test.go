package credentials

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

const canary = "canary-0123456789"

func write(t testing.TB, name, text string, mode fs.FileMode) string {
	t.Helper()
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.TempDir(), name)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
	return path
}

// [AUTH-37, AUTH-38, AUTH-40]
func TestFile(t *testing.T) {
	path := write(t, "keys.json", `{"credentials": [
  {"id": "ORDERS01", "secret": "`+canary+`", "name": "orders", "allow": ["sqs:SendMessage"]},
  {"id": "ORDERS02", "secret-file": "orders.secret", "name": "orders", "allow": ["SQS:send*"], "expires": "2027-01-31T01:00:00+01:00"},
  {"id": "OTHER", "secret": "`+canary+`-3", "account": "111122223333", "token": "`+canary+`-t", "allow": ["*"]}
]}`, 0o600)
	write(t, filepath.Join(filepath.Dir(path), "orders.secret"), "  "+canary+"-2\n", 0o400)
	set, err := Open(Config{File: path, Account: "000000000007", Actions: []string{"sqs:SendMessage", "sqs:ReceiveMessage"}})
	if err != nil {
		t.Fatal(err)
	}
	if set.Len() != 3 || set.Find("NONE") != nil {
		t.Errorf("got %d keys and %v for NONE, want 3 and none", set.Len(), set.Find("NONE"))
	}
	for id, want := range map[string]string{
		"ORDERS01": "arn:aws:iam::000000000007:user/orders canary-0123456789  0001-01-01T00:00:00Z true false",
		"ORDERS02": "arn:aws:iam::000000000007:user/orders canary-0123456789-2  2027-01-31T00:00:00Z true false",
		"OTHER":    "arn:aws:iam::111122223333:user/OTHER canary-0123456789-3 canary-0123456789-t 0001-01-01T00:00:00Z true true",
	} {
		k := set.Find(id)
		got := fmt.Sprint(k.ARN(), " ", k.Secret.Reveal(), " ", k.Token.Reveal(), " ", k.Expires.UTC().Format("2006-01-02T15:04:05Z"), " ",
			k.Allows("sqs:SendMessage"), " ", k.Allows("sqs:ReceiveMessage"))
		if got != want {
			t.Errorf("%s: got %q, want %q", id, got, want)
		}
	}
	first, second, third := set.Find("ORDERS01").UserID(), set.Find("ORDERS02").UserID(), set.Find("OTHER").UserID()
	if first != second || first == third || len(first) != 21 || !strings.HasPrefix(first, "AIDA") {
		t.Errorf("got user ids %s, %s, %s, want one for both keys of a user, another for another", first, second, third)
	}
}

// [AUTH-37, AUTH-38]
func TestFileIsRefused(t *testing.T) {
	entry := func(members string) string { return "{\"credentials\": [\n{" + members + "}]}" }
	const (
		rest   = `"secret": "` + canary + `", "allow": ["*"]`
		secret = `"secret": "` + canary + `"`
	)
	for text, want := range map[string]string{
		``:                                    "1: the file ends early",
		`{"credentials": [`:                   "1: the file ends early",
		"{\n\n]":                              "3: invalid character ']'",
		`[]`:                                  `1: the file must be an object`,
		`null`:                                `1: the file must be an object`,
		`{}`:                                  "1: the file has no credentials",
		`{"credentials": []}`:                 "1: the file has no credentials",
		`{"credentials": {}}`:                 "1: credentials must be a list",
		`{"credentials": ["a"]}`:              "1: an entry of credentials must be an object",
		"{\n\"keys\": []}":                    `2: unknown member "keys": the members are credentials`,
		entry(`"id": "AAAA", `+rest) + "\n{}": "3: there is text after the object",
		"{\"credentials\": [],\n\"credentials\": []}": `2: "credentials" is given twice; the first is in line 1`,

		entry(rest):                                                           "2: an entry needs an id",
		entry(`"id": "AAAA", "allow": ["*"]`):                                 "2: AAAA: an entry needs either secret or secret-file",
		entry(`"id": "AAAA", "secret-file": "x", ` + rest):                    "2: AAAA: an entry needs either secret or secret-file",
		entry(`"id": "AAAA", ` + secret):                                      "2: AAAA: an entry must list its rights",
		entry("\"id\": \"AAAA\",\n\"id\": \"AAAA\", " + rest):                 `3: "id" is given twice; the first is in line 2`,
		entry(`"id": "AAAA", "Secret": "` + canary + `"`):                     `2: unknown member "Secret": the members are id, secret, secret-file`,
		entry(`"id": "AAAA",` + "\n" + `"region": "x", ` + rest):              `3: unknown member "region"`,
		entry(`"id": 5, ` + rest):                                             "2: id must be a string that is not empty",
		entry(`"id": null, ` + rest):                                          "2: id must be a string that is not empty",
		entry(`"id": "", ` + rest):                                            "2: id must be a string that is not empty",
		entry(`"id": "a/b/c", ` + rest):                                       `2: a/b/c: id "a/b/c" must be 4 to 128 letters`,
		entry(`"id": "AAAA", "account": "12", ` + rest):                       `2: AAAA: account "12" is not twelve digits`,
		entry(`"id": "AAAA", "name": "a b", ` + rest):                         `2: AAAA: name "a b" must be`,
		entry(`"id": "AAAA", "expires": "tomorrow", ` + rest):                 `2: AAAA: expires: "tomorrow" is not a time`,
		entry(`"id": "AAAA", "token": "canary", ` + rest):                     "2: AAAA: the token has 6 characters",
		entry(`"id": "AAAA", "secret": "canary", "allow": ["*"]`):             "2: AAAA: the secret has 6 characters, which can be guessed: use at least 16",
		entry(`"id": "AAAA", "secret": "canary with spaces", "allow": ["*"]`): "2: AAAA: the secret must be printable ASCII without spaces",
		entry(`"id": "AAAA", "secret": ["` + canary + `"], "allow": ["*"]`):   "2: secret must be a string",
		entry(`"id": "AAAA", "secret-file": "none", "allow": ["*"]`):          "2: AAAA: secret-file: open ",

		entry(`"id": "AAAA", ` + secret + `, "allow": "*"`):                      "2: allow must be a list of patterns",
		entry(`"id": "AAAA", ` + secret + `, "allow": []`):                       "2: allow must be a list of patterns",
		entry(`"id": "AAAA", ` + secret + `, "allow": [1]`):                      "2: allow must be a list of patterns",
		entry(`"id": "AAAA", ` + secret + `, "allow": ["SendMessage"]`):          `2: allow: "SendMessage" is not a pattern such as sqs:SendMessage`,
		entry(`"id": "AAAA", ` + secret + `, "allow": ["s3:GetObject"]`):         `2: allow: "s3:GetObject" is not a pattern such as`,
		entry(`"id": "AAAA", ` + secret + `, "allow": ["sqs:"]`):                 `2: allow: "sqs:" is not a pattern such as`,
		entry(`"id": "AAAA", ` + secret + `, "allow": ["sqs:SendMesage"]`):       `2: allow: "sqs:SendMesage" matches no action`,
		entry(`"id": "AAAA", ` + secret + `, "allow": ["sqs:SendMessageBatch"]`): `2: allow: "sqs:SendMessageBatch" is not an action: the right`,

		"{\"credentials\": [\n{\"id\": \"AAAA\", " + rest + "},\n{\"id\": \"AAAA\", \"secret\": \"other-" + canary + "\", \"allow\": [\"*\"]}]}": "3: the id AAAA is used twice; the first is in line 2",
		"{\"credentials\": [\n{\"id\": \"AAAA\", " + rest + "},\n{\"id\": \"BBBB\", " + rest + "}]}":                                             "3: BBBB has the same secret as AAAA",
	} {
		path := write(t, "keys.json", text, 0o600)
		set, err := Open(Config{File: path, Actions: []string{"sqs:SendMessage"}})
		if err == nil || !strings.HasPrefix(err.Error(), "credentials: "+path+":"+want) {
			t.Errorf("%s: got %v, want it to begin with %q", text, err, want)
		}
		if set != nil || err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: got %v and %v, want no credentials and no secret", text, set, err)
		}
	}
}

const single = `{"credentials": [{"id": "AAAA", "secret": "` + canary + `", "allow": ["*"]}]}`

// [AUTH-37]
func TestFileRights(t *testing.T) {
	for mode, fine := range map[fs.FileMode]bool{
		0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o620: false, 0o602: false, 0o644: false, 0o601: false,
	} {
		path := write(t, "keys.json", single, mode)
		_, err := Open(Config{File: path})
		if want := fmt.Sprintf("credentials: other users can read or change %s (mode %04o): run chmod 600 %[1]s", path, mode); (err == nil) != fine || err != nil && err.Error() != want {
			t.Errorf("mode %04o: got %v, want fine %v", mode, err, fine)
		}
		// A secret beside the file is as secret.
		file := write(t, "keys.json", `{"credentials": [{"id": "AAAA", "secret-file": "`+write(t, "secret", canary, mode)+`", "allow": ["*"]}]}`, 0o600)
		if _, err := Open(Config{File: file}); (err == nil) != fine {
			t.Errorf("secret-file of mode %04o: got %v, want fine %v", mode, err, fine)
		}
	}
	if _, err := Open(Config{File: t.TempDir()}); err == nil || !strings.HasSuffix(err.Error(), "is not a file") {
		t.Errorf("a directory: got %v, want it refused", err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{File: pipe}); err == nil || !strings.HasSuffix(err.Error(), "is not a file") {
		t.Errorf("a pipe: got %v, want it refused", err)
	}
	if _, err := Open(Config{File: write(t, "large", strings.Repeat(" ", fileMax+1), 0o600)}); err == nil || !strings.HasSuffix(err.Error(), "is larger than 1 MiB") {
		t.Errorf("a large file: got %v, want it refused", err)
	}
	if _, err := Open(Config{File: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v, want fs.ErrNotExist", err)
	}
}

// The file may be readable by its group, if another user provides it.
func TestFileOfSomebodyElse(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	for mode, fine := range map[fs.FileMode]bool{0o440: true, 0o640: true, 0o660: false, 0o444: false} {
		path := write(t, "keys.json", single, mode)
		if err := os.Chown(path, 65534, -1); err != nil {
			t.Skip(err)
		}
		if _, err := Open(Config{File: path}); (err == nil) != fine {
			t.Errorf("mode %04o: got %v, want fine %v", mode, err, fine)
		}
	}
}

func TestEnvironment(t *testing.T) {
	path := write(t, "keys.json", single, 0o600)
	const notBoth = "; both TENAQ_ACCESS_KEY_ID and TENAQ_SECRET_ACCESS_KEY must be set, or neither"
	for _, test := range []struct {
		file, id, secret string
		want             string // ids, or the end of the error
	}{
		{"", "", "", "nobody"},
		{path, "", "", "AAAA"},
		{"", "BBBB", canary, "BBBB"},
		{path, "BBBB", canary, "use one of them"},
		{path, "", canary, "use one of them"},
		{"", "BBBB", "", notBoth},
		{"", "", canary, notBoth},
		{"", "BBBB", "canary", notBoth},
	} {
		env := map[string]string{"TENAQ_CREDENTIALS": test.file, "TENAQ_ACCESS_KEY_ID": test.id, "TENAQ_SECRET_ACCESS_KEY": test.secret}
		var cfg Config
		cfg.Environment(func(name string) string { return env[name] })
		set, err := Open(cfg)
		got := "nobody"
		switch {
		case err != nil:
			got = err.Error()
		case set != nil:
			got = strings.Join(slices.Collect(maps.Keys(set.has.Load().keys)), " ")
		}
		if !strings.HasSuffix(got, test.want) || err != nil && strings.Contains(got, "canary") {
			t.Errorf("%q, %q: got %q, want %q", test.file, test.id, got, test.want)
		}
	}
	set, err := Open(Config{ID: "BBBB", Secret: NewSecret(canary)})
	if err != nil {
		t.Fatal(err)
	}
	if k := set.Find("BBBB"); !k.Allows("sqs:PurgeQueue") || k.ARN() != "arn:aws:iam::000000000000:user/BBBB" {
		t.Errorf("got %v, want the user BBBB of 000000000000 who may do everything", k)
	}
	if err := set.Reload(); err != nil || set.Len() != 1 {
		t.Errorf("Reload: got %v and %d keys, want none and 1", err, set.Len())
	}
}

// TestReload reloads while others ask. [AUTH-39]
func TestReload(t *testing.T) {
	path := write(t, "keys.json", single, 0o600)
	set, err := Open(Config{File: path})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var asking sync.WaitGroup
	asking.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if a, b := set.Find("AAAA"), set.Find("BBBB"); a == nil && b == nil && set.Len() != 1 {
					t.Error("got a set that no file had")
				}
			}
		}
	})
	for range 20 {
		write(t, path, strings.ReplaceAll(single, "AAAA", "BBBB"), 0o600)
		if err := set.Reload(); err != nil || set.Find("AAAA") != nil || set.Find("BBBB") == nil {
			t.Errorf("got %v, %v, %v, want BBBB", err, set.Find("AAAA"), set.Find("BBBB"))
		}
		write(t, path, strings.Replace(single, "allow", "alow", 1), 0o600)
		if err := set.Reload(); err == nil || !strings.HasSuffix(err.Error(), "; the earlier credentials stay in use") || set.Find("BBBB") == nil {
			t.Errorf("got %v and %v, want an error, and BBBB as before", err, set.Find("BBBB"))
		}
		write(t, path, single, 0o600)
		if err := set.Reload(); err != nil || set.Find("AAAA") == nil {
			t.Errorf("got %v and %v, want AAAA", err, set.Find("AAAA"))
		}
	}
	close(stop)
	asking.Wait()
}

// [AUTH-38]
func TestMatch(t *testing.T) {
	for _, test := range []struct {
		pattern, action string
		want            bool
	}{
		{"*", "sqs:SendMessage", true},
		{"sqs:*", "sqs:SendMessage", true},
		{"sqs:*", "cloudwatch:PutMetricData", false},
		{"sqs:SendMessage", "sqs:SendMessage", true},
		{"SQS:sendmessage", "sqs:SendMessage", true},
		{"sqs:Send", "sqs:SendMessage", false},
		{"sqs:SendMessage", "sqs:Send", false},
		{"sqs:SendMessage*", "sqs:SendMessage", true},
		{"sqs:*Message", "sqs:SendMessage", true},
		{"sqs:*Message", "sqs:SendMessages", false},
		{"sqs:*e*e", "sqs:SendMessage", true},
		{"sqs:*M*age", "sqs:SendMessage", true},
		{"sqs:*Q*", "sqs:SendMessage", false},
		{"sqs:S??dMessage", "sqs:SendMessage", true},
		{"sqs:?SendMessage", "sqs:SendMessage", false},
		{"sqs:SendMessage?", "sqs:SendMessage", false},
		{"", "sqs:SendMessage", false},
		{"s*s:*", "sqs:SendMessage", true},
	} {
		if got := match(test.pattern, test.action); got != test.want {
			t.Errorf("match(%q, %q): got %v, want %v", test.pattern, test.action, got, test.want)
		}
	}
	if allows(nil, "sqs:SendMessage") || !allows([]string{"sqs:Receive*", "sqs:Send*"}, "sqs:SendMessage") {
		t.Error("got another answer than that of any pattern")
	}
}

// TestNothingShowsASecret prints what holds secrets in every way that programs print. [AUTH-35]
func TestNothingShowsASecret(t *testing.T) {
	text := `{"credentials": [{"id": "AAAA", "secret": "` + canary + `", "token": "token-` + canary + `", "allow": ["*"]}]}`
	cfg := Config{File: write(t, "keys.json", text, 0o600)}
	set, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	key := set.Find("AAAA")
	cfg.Secret = key.Secret
	type inside struct {
		a Secret
		b *Key
		c Key
		d any
	}
	var all bytes.Buffer
	for _, v := range []any{key.Secret, &key.Secret, key, *key, set, cfg, &cfg, []*Key{key}, []Key{*key}, map[string]Secret{"a": key.Secret},
		inside{key.Secret, key, *key, cfg}, set.has.Load().keys, *set.has.Load(), set.Proxy()} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%p"} {
			fmt.Fprintf(&all, verb+"\n", v)
		}
		b, err := json.Marshal(v)
		fmt.Fprintln(&all, string(b), err)
		for _, h := range []slog.Handler{slog.NewTextHandler(&all, nil), slog.NewJSONHandler(&all, nil)} {
			slog.New(h).Info("shown", "value", v, slog.Group("group", "value", v))
		}
	}
	hex := fmt.Sprintf("%x", canary)
	for _, form := range []string{canary, hex, strings.ToUpper(hex), fmt.Sprint([]byte(canary))} {
		if strings.Contains(all.String(), form) {
			t.Errorf("got %q somewhere in what was printed", form)
		}
	}
	if !strings.Contains(all.String(), redacted) || !strings.Contains(all.String(), "AAAA of arn:aws:iam::000000000000:user/AAAA") {
		t.Errorf("got %s, want the names of keys and %q", all.String(), redacted)
	}
}

// FuzzFile holds reading to: a set or an error that names the file, never a panic, and no secret in
// an error.
func FuzzFile(f *testing.F) {
	f.Add(single)
	f.Add(`{"credentials": [{"id": "AAAA", "secret": "short", "allow": ["sqs:S*"], "expires": "2027-01-31T00:00:00Z"}]}`)
	f.Add("{\"credentials\":\n[{\"allow\": [\"x")
	f.Fuzz(func(t *testing.T, text string) {
		path := write(t, "keys.json", text, 0o600)
		set, err := Open(Config{File: path})
		if err != nil && !strings.HasPrefix(err.Error(), "credentials: "+path) {
			t.Errorf("got %v, want the file named", err)
		}
		if (set == nil) != (err != nil) || set != nil && set.Len() == 0 {
			t.Errorf("got %v and %v, want one of them", set, err)
		}
	})
}

// The key of the process itself is no part of the file, and outlives its reading.
func TestOwn(t *testing.T) {
	path := write(t, "keys.json", `{"credentials": [{"id": "ORDERS01", "secret": "`+canary+`", "name": "orders", "allow": ["sqs:SendMessage"]}]}`, 0o600)
	set, err := Open(Config{File: path, Account: "000000000007"})
	if err != nil {
		t.Fatal(err)
	}
	first := set.Own("redrive")
	if err := set.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := set.Find(first.ID); got != first || !got.Allows("sqs:DeleteQueue") || got.ARN() != "arn:aws:iam::000000000007:user/redrive" {
		t.Errorf("got %v, want the key of its own, which may do everything", got)
	}
	if len(first.Secret.Reveal()) < 40 || set.Len() != 1 || set.Find("ORDERS01") == nil {
		t.Errorf("got %d keys and a secret of %d characters", set.Len(), len(first.Secret.Reveal()))
	}
	second := set.Own("redrive")
	if set.Find(first.ID) != nil || set.Find(second.ID) != second || first.Secret.Reveal() == second.Secret.Reveal() {
		t.Error("got the first key after a second was made, want the second only")
	}
}

// A key has the time of its latest use, to the second. It keeps it while its secret stays, also the
// uses by requests that still have the key of before. [V1-23]
func TestLastUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entry := func(id, secret, more string) string {
			return fmt.Sprintf(`{"id": %q, "secret": "%s-%s", "allow": ["SQS:Send*"]%s}`, id, canary, secret, more)
		}
		path := filepath.Join(t.TempDir(), "keys.json")
		file := func(entries ...string) {
			write(t, path, `{"credentials": [`+strings.Join(entries, ",")+`]}`, 0o600)
		}
		file(entry("STAYS", "1", ""), entry("CHANGES", "2", ""), entry("GOES", "3", ""), entry("UNUSED", "4", ""))
		set, err := Open(Config{File: path})
		if err != nil {
			t.Fatal(err)
		}
		before := set.Find("STAYS")
		used := time.Now()
		time.Sleep(900 * time.Millisecond)
		for _, id := range []string{"STAYS", "CHANGES", "GOES"} {
			set.Find(id).Use()
		}
		set.Own("ops").Use() // is not listed
		check := func(when string, want map[string]time.Time) {
			t.Helper()
			var ids []string
			for _, k := range set.Keys() {
				ids = append(ids, k.ID)
				if got := k.LastUse(); !got.Equal(want[k.ID]) {
					t.Errorf("%s: %s was used at %v, want %v", when, k.ID, got, want[k.ID])
				}
			}
			if got := slices.Sorted(maps.Keys(want)); !slices.Equal(ids, got) {
				t.Errorf("%s: got the keys %v, want %v", when, ids, got)
			}
		}
		never := time.Time{}
		check("at first", map[string]time.Time{"STAYS": used, "CHANGES": used, "GOES": used, "UNUSED": never})
		file(entry("STAYS", "1", `, "name": "other"`), entry("CHANGES", "5", ""), entry("NEW1", "6", ""))
		if err := set.Reload(); err != nil {
			t.Fatal(err)
		}
		if got := []string{set.Keys()[0].ID, set.Keys()[1].ID, set.Keys()[2].ID}; !slices.Equal(got, []string{"CHANGES", "NEW1", "STAYS"}) {
			t.Errorf("got the keys %v, want them by the names of their users", got)
		}
		check("after a reload", map[string]time.Time{"STAYS": used, "CHANGES": never, "NEW1": never})
		time.Sleep(time.Minute)
		before.Use()
		check("by a request from before", map[string]time.Time{"STAYS": used.Add(time.Minute), "CHANGES": never, "NEW1": never})
		file(entry("STAYS", "1", ""))
		if err := set.Reload(); err != nil {
			t.Fatal(err)
		}
		check("after another reload", map[string]time.Time{"STAYS": used.Add(time.Minute)})
		if got := set.Find("STAYS").Rights; !slices.Equal(got, []string{"SQS:Send*"}) {
			t.Errorf("the rights are %v, want them as the file has them", got)
		}
	})
}

// BenchmarkUse is what it costs all processors at once to remember the uses of one key.
func BenchmarkUse(b *testing.B) {
	set, err := Open(Config{ID: "AAAA", Secret: NewSecret(canary)})
	if err != nil {
		b.Fatal(err)
	}
	k := set.Find("AAAA")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			k.Use()
		}
	})
}
