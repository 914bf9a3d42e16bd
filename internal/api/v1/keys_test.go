package v1

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tenaq/internal/door/auth"
)

// listed are the keys as the key TQALL001 sees them, by their ids. The answer has no secret.
func (k *keyed) listed(t *testing.T) (list KeyList, keys map[string]AccessKey) {
	t.Helper()
	status, body := k.as(t, "key TQALL001", "GET", "/v1/keys", "")
	if err := json.Unmarshal([]byte(body), &list); err != nil || status != http.StatusOK || list.Open {
		t.Fatalf("got %d %s", status, body)
	}
	if err := matchesSchema(k.Handler, httptest.NewRequest("GET", "/v1/keys", nil), status, body); err != nil {
		t.Error(err)
	}
	if strings.Contains(body, "the-secret-of-") || strings.Contains(body, "the-token-of-") {
		t.Errorf("the answer has a secret: %s", body)
	}
	keys = make(map[string]AccessKey)
	for _, key := range list.Keys {
		keys[key.ID] = key
	}
	return list, keys
}

// Keys are listed with what they may do, when they end, and when a request has proved them last: by
// a signature, a token, a session or a user of a proxy, also if it was refused a right. [V1-23]
func TestKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := visit(t, auth.Config{})
		began := time.Now()
		v.since = began.UTC()
		ends := began.Add(time.Hour).UTC().Truncate(time.Second)
		v.write(t, keyOf("TQALL001", "*", ""), keyOf("TQSEES01", "Tenaq:List*", `, "name": "viewer"`), keyOf("TQUNUSED", "*", ""),
			keyOf("TQOTHER1", "*", `, "account": "111122223333"`), keyOf("TQBRIEF1", "*", `, "name": "viewer", "token": "the-token-of-TQBRIEF1", "expires": "`+ends.Format(time.RFC3339)+`"`))
		list, keys := v.listed(t)
		var ids []string
		for _, key := range list.Keys {
			ids = append(ids, key.ID)
		}
		if want := []string{"TQALL001", "TQUNUSED", "TQBRIEF1", "TQSEES01", "TQOTHER1"}; !slices.Equal(ids, want) || !list.Since.Equal(began) {
			t.Errorf("got the keys %v since %v, want %v since %v", ids, list.Since, want, began)
		}
		if got := keys["TQSEES01"]; got.User != "viewer" || got.Account != account || !slices.Equal(got.Allow, []string{"Tenaq:List*"}) || got.Expires != nil || got.Expired || got.LastUse != nil {
			t.Errorf("got %+v", got)
		}
		if got := keys["TQBRIEF1"]; got.Expires == nil || !got.Expires.Equal(ends) || got.Expired {
			t.Errorf("got %+v, want a key that ends at %v", got, ends)
		}
		if got := keys["TQOTHER1"]; got.Account != "111122223333" || got.User != "TQOTHER1" {
			t.Errorf("got %+v", got)
		}

		b := v.browse(t, auth.Config{}) // the same keys behind another door
		v.cfg.Door.SetTokenSecret([]byte("the secret of the store"))
		b.signsIn(t, "TQSEES01")
		token := "Bearer " + v.token(t, "TQALL001", "{}").Token
		for _, use := range []struct {
			by, key string
			counts  bool
			ask     func() (int, string)
		}{
			{"a signature", "TQSEES01", true, func() (int, string) { return v.keyed.as(t, "key TQSEES01", "GET", "/v1/queues", "") }},
			{"a signature without the right", "TQSEES01", true, func() (int, string) { return v.keyed.as(t, "key TQSEES01", "GET", "/v1/keys", "") }},
			{"a wrong signature", "TQUNUSED", false, func() (int, string) {
				return v.keyed.as(t, "AWS4-HMAC-SHA256 Credential=TQUNUSED/20260101/us-east-1/sqs/aws4_request, SignedHeaders=host;x-amz-date, Signature=00", "GET", "/v1", "")
			}},
			{"a wrong token", "TQUNUSED", false, func() (int, string) {
				return v.keyed.as(t, strings.Replace(token, "TQALL001", "TQUNUSED", 1), "GET", "/v1", "")
			}},
			{"a token", "TQALL001", true, func() (int, string) { return v.keyed.as(t, token, "GET", "/v1", "") }},
			{"a session", "TQSEES01", true, func() (int, string) { return b.does(t, "GET", "/v1/queues", "") }},
			{"a wrong sign-in", "TQUNUSED", false, func() (int, string) {
				return b.does(t, "POST", "/v1/session", `{"id": "TQUNUSED", "secret": "the-secret-of-another"}`)
			}},
			{"a sign-in", "TQBRIEF1", false, func() (int, string) { return b.does(t, "POST", "/v1/session", signIn("TQBRIEF1")) }}, // without its session token
		} {
			time.Sleep(time.Minute)
			_, keys := v.listed(t)
			before := keys[use.key].LastUse
			time.Sleep(1500 * time.Millisecond)
			now := time.Now().Truncate(time.Second)
			status, body := use.ask()
			time.Sleep(1500 * time.Millisecond)
			got := v.lastUse(use.key)
			if counts := got.Equal(now); counts != use.counts || !use.counts && before != nil && !got.Equal(*before) {
				t.Errorf("%s of %s: got %d %s, and the key was used at %v, at %v before that", use.by, use.key, status, body, got, before)
			}
		}
		v.rules(t, proxyRules) // has no other keys; those that stay keep their uses
		before := v.lastUse("TQSEES01")
		if before.IsZero() {
			t.Error("the file was read again, and a key lost its latest use")
		}
		time.Sleep(time.Minute)
		if status, body := v.as("bob").does(t, "GET", "/v1/queues", ""); status != http.StatusOK || !v.lastUse("TQSEES01").Equal(time.Now().Truncate(time.Second)) {
			t.Errorf("a user of a proxy: got %d %s, and the key was used at %v", status, body, v.lastUse("TQSEES01"))
		}
		time.Sleep(time.Until(ends))
		v.write(t, keyOf("TQALL001", "*", ""), keyOf("TQBRIEF1", "*", `, "expires": "`+ends.Format(time.RFC3339)+`"`))
		if _, keys := v.listed(t); !keys["TQBRIEF1"].Expired {
			t.Errorf("got %+v, want a key that has expired", keys["TQBRIEF1"])
		}
	})
}

// lastUse is when a key was used last, without a request that uses another.
func (v *visitor) lastUse(id string) time.Time { return v.set.Find(id).LastUse() }

// Only a key of the account of the server with the right sees the keys. A server without keys has
// an empty list. [V1-23]
func TestKeysAreForTheServer(t *testing.T) {
	k := newKeyed(t, keyOf("TQALL001", "*", ""), keyOf("TQSEES01", "tenaq:List*", ""), keyOf("TQOTHER1", "*", `, "account": "111122223333"`))
	for key, want := range map[string]int{"TQALL001": 200, "TQSEES01": 403, "TQOTHER1": 403} {
		if status, body := k.as(t, "key "+key, "GET", "/v1/keys", ""); status != want {
			t.Errorf("%s: got %d %s, want %d", key, status, body, want)
		}
	}
	w := newWorld(t)
	w.since = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	if status, body := w.ask("GET", "/v1/keys", "", ""); status != 200 || body != `{"open":true,"since":"2026-11-01T00:00:00Z","keys":[]}`+"\n" {
		t.Errorf("without keys: got %d %s", status, body)
	}
}
