package v1

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"tenaq/internal/door/auth"
	"tenaq/internal/door/credentials"
	"tenaq/internal/engine"
)

// A keyed world has keys, which a test may replace.
type keyed struct {
	*world
	path string
	set  *credentials.Set
}

func newKeyed(t *testing.T, keys ...string) *keyed {
	t.Helper()
	k := &keyed{world: newWorld(t), path: filepath.Join(t.TempDir(), "keys.json")}
	k.write(t, keys...)
	set, err := credentials.Open(credentials.Config{File: k.path})
	if err != nil {
		t.Fatal(err)
	}
	k.set = set
	k.cfg.Door = auth.New(auth.Config{Credentials: set, Account: account, Region: "us-east-1"})
	k.cfg.Door.SetTokenSecret([]byte("the secret of the store"))
	return k
}

func (k *keyed) write(t *testing.T, keys ...string) {
	t.Helper()
	if err := os.WriteFile(k.path, []byte(`{"credentials": [`+strings.Join(keys, ",")+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if k.set != nil {
		if err := k.set.Reload(); err != nil {
			t.Fatal(err)
		}
	}
}

// as sends a request that carries a token, or that a key signs.
func (k *keyed) as(t *testing.T, who, method, path, body string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if secret, isKey := strings.CutPrefix(who, "key "); isKey {
		sum := sha256.Sum256([]byte(body))
		if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: secret, SecretAccessKey: "the-secret-of-" + secret},
			r, hex.EncodeToString(sum[:]), "sqs", "us-east-1", time.Now()); err != nil {
			t.Fatal(err)
		}
	} else if who != "" {
		r.Header.Set("Authorization", who)
	}
	w := httptest.NewRecorder()
	k.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// deny makes a queue that denies everyone an action.
func (k *keyed) deny(t *testing.T, queue, action string) {
	t.Helper()
	k.do(t, &engine.CreateQueue{Queue: engine.QueueName{Account: account, Name: queue}, NameSet: true, Attributes: map[string]string{
		"Policy": `{"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*","Action":"` + action + `","Resource":"*"}}`}})
}

func (k *keyed) token(t *testing.T, key, body string) token {
	t.Helper()
	status, text := k.as(t, "key "+key, "POST", "/v1/tokens", body)
	var made token
	if err := json.Unmarshal([]byte(text), &made); err != nil || status != http.StatusOK {
		t.Fatalf("a token of %s: %d %s", key, status, text)
	}
	return made
}

func keyOf(id, allow, more string) string {
	return fmt.Sprintf(`{"id": %q, "secret": "the-secret-of-%s", "allow": [%q]%s}`, id, id, allow, more)
}

// A token does what its key may do, until it expires or the key ends. It makes no other token.
// [V1-6, V1-7]
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sees, all := keyOf("TQSEES01", "tenaq:ListQueues", ""), keyOf("TQALL001", "*", "")
		brief := keyOf("TQBRIEF1", "*", `, "expires": "`+time.Now().Add(10*time.Minute).UTC().Format(time.RFC3339)+`"`)
		k := newKeyed(t, sees, all, brief)
		of := make(map[string]string)
		for key, life := range map[string]time.Duration{"TQSEES01": time.Hour, "TQALL001": 12 * time.Hour, "TQBRIEF1": 10 * time.Minute} {
			body := "{}"
			if key == "TQALL001" {
				body = `{"for":"12h"}`
			}
			made := k.token(t, key, body)
			if got := time.Until(made.Expires); got != life {
				t.Errorf("the token of %s ends in %v, want %v", key, got, life)
			}
			of[key] = "Bearer " + made.Token
		}
		check := func(when, who, method, path string, want int, part string) {
			t.Helper()
			body := ""
			if method == "POST" {
				body = "{}"
			}
			if status, text := k.as(t, who, method, path, body); status != want || !strings.Contains(text, part) {
				t.Errorf("%s: %s %s: got %d %s, want %d and %s", when, method, path, status, text, want, part)
			}
		}
		check("at first", of["TQSEES01"], "GET", "/v1/queues", 200, `"queues"`)
		check("at first", strings.ToLower(of["TQSEES01"][:6])+of["TQSEES01"][6:], "GET", "/v1/queues", 200, `"queues"`)
		check("at first", of["TQSEES01"], "GET", "/v1", 200, `"allowed":["tenaq:ListQueues"]`)
		check("at first", of["TQSEES01"], "GET", "/v1", 200, `"key":"TQSEES01","user":"TQSEES01","token":true`)
		check("at first", of["TQSEES01"], "GET", "/v1/queues/q", 403, "tenaq:getqueue")
		check("at first", of["TQALL001"], "GET", "/v1/queues/q", 404, "NonExistentQueue")
		check("at first", of["TQALL001"], "POST", "/v1/tokens", 403, "A token cannot make another one")
		for _, wrong := range []string{
			"", "Bearer", "Bearer x", "Bearer tqt1.TQALL001.99999999999.", of["TQALL001"] + "x", of["TQALL001"][:len(of["TQALL001"])-2],
			strings.Replace(of["TQSEES01"], "TQSEES01", "TQALL001", 1), strings.Replace(of["TQALL001"], "TQALL001", "TQNONE01", 1),
			strings.Replace(of["TQALL001"], "tqt1.TQALL001.9", "tqt1.TQALL001.1", 1), "Basic " + of["TQALL001"][7:],
		} {
			check("wrong "+wrong, wrong, "GET", "/v1/queues", 403, "")
		}
		time.Sleep(10*time.Minute - time.Second)
		check("before the key ends", of["TQBRIEF1"], "GET", "/v1", 200, "")
		time.Sleep(time.Second)
		check("after the key has ended", of["TQBRIEF1"], "GET", "/v1", 403, "expired")
		time.Sleep(50*time.Minute - time.Second)
		check("before its end", of["TQSEES01"], "GET", "/v1", 200, "")
		time.Sleep(time.Second)
		check("after its end", of["TQSEES01"], "GET", "/v1", 403, "make another one with tenaq token")
		check("with time left", of["TQALL001"], "GET", "/v1", 200, "")
		k.write(t, strings.Replace(all, "the-secret-of-TQALL001", "another-secret-0123", 1))
		check("with another secret", of["TQALL001"], "GET", "/v1", 403, "its key has ended")
		k.write(t, sees)
		check("without the key", of["TQALL001"], "GET", "/v1", 403, "its key has ended")
		k.write(t, all)
		check("with the key again", of["TQALL001"], "GET", "/v1", 200, "")
	})
}

// A door that has no secret makes no token and accepts none, nor does one of another store. [V1-6]
func TestTokenOfAnotherStore(t *testing.T) {
	k := newKeyed(t, keyOf("TQALL001", "*", ""))
	mine := "Bearer " + k.token(t, "TQALL001", "{}").Token
	k.cfg.Door = auth.New(auth.Config{Credentials: k.set, Account: account, Region: "us-east-1"})
	for _, who := range []string{mine, mine[:strings.LastIndex(mine, ".")+1]} {
		if status, body := k.as(t, who, "GET", "/v1", ""); status != http.StatusForbidden ||
			who == mine && !strings.Contains(body, "ask the node that leads") {
			t.Errorf("without a secret, %q: got %d %s", who, status, body)
		}
	}
	if status, body := k.as(t, "key TQALL001", "POST", "/v1/tokens", "{}"); status != http.StatusForbidden || !strings.Contains(body, "no secret for tokens") {
		t.Errorf("without a secret: got %d %s", status, body)
	}
	k.cfg.Door.SetTokenSecret([]byte("another secret"))
	if status, body := k.as(t, mine, "GET", "/v1", ""); status != http.StatusForbidden {
		t.Errorf("with another secret: got %d %s", status, body)
	}
}

// A token lives from a second to 12 hours. A server without keys makes one too. [V1-6]
func TestTokenLife(t *testing.T) {
	w := newWorld(t)
	w.cfg.Door.SetTokenSecret([]byte("the secret of the store"))
	for life, want := range map[string]int{"1s": 200, "12h": 200, "90m": 200, "0s": 400, "999ms": 400, "-1h": 400, "12h1s": 400, "1d": 400, "x": 400} {
		status, body := w.ask("POST", "/v1/tokens", "application/json", `{"for":"`+life+`"}`)
		if status != want || status == 400 && !strings.Contains(body, "a duration from 1s to 12h") {
			t.Errorf("for %s: got %d %s, want %d", life, status, body, want)
		}
	}
}

// The other APIs refuse a token and say where it can be used. [V1-7]
func TestTokenIsForV1(t *testing.T) {
	k := newKeyed(t, keyOf("TQALL001", "*", ""))
	r := httptest.NewRequest("POST", "http://localhost/", nil)
	r.Header.Set("Authorization", "Bearer "+k.token(t, "TQALL001", "{}").Token)
	for _, service := range []string{"sqs", "monitoring", "sts"} {
		if _, err := k.cfg.Door.Authenticate(r, service); err == nil || !strings.Contains(err.Error(), "for /v1 only") {
			t.Errorf("%s: got %v, want it refused", service, err)
		}
	}
}
