package v1

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// Only a key of the account of the server with the right sees the settings. A server without a list
// has no such route. [V1-24]
func TestSettings(t *testing.T) {
	k := newKeyed(t, keyOf("TQALL001", "*", ""), keyOf("TQVIEW01", "tenaq:ViewSettings", ""), keyOf("TQSEES01", "tenaq:List*", ""),
		keyOf("TQOTHER1", "*", `, "account": "111122223333"`))
	has := func() bool {
		_, body := k.as(t, "key TQALL001", "GET", "/v1", "")
		_, features, _ := strings.Cut(body, `"features":[`)
		features, _, _ = strings.Cut(features, "]")
		return slices.Contains(strings.Split(features, ","), `"settings"`)
	}
	if status, body := k.as(t, "key TQALL001", "GET", "/v1/settings", ""); status != http.StatusNotFound || has() {
		t.Errorf("without a list: got %d %s, and the feature is there: %t", status, body, has())
	}
	k.cfg.Settings = []Setting{{"listen", "127.0.0.1:0", "--listen"}, {"tls-cert", "", "default"}}
	if !has() {
		t.Error("the feature is not there")
	}
	for key, want := range map[string]int{"TQALL001": 200, "TQVIEW01": 200, "TQSEES01": 403, "TQOTHER1": 403} {
		status, body := k.as(t, "key "+key, "GET", "/v1/settings", "")
		const list = `{"settings":[{"name":"listen","value":"127.0.0.1:0","origin":"--listen"},{"name":"tls-cert","value":"","origin":"default"}]}` + "\n"
		if status != want || status == 200 && body != list {
			t.Errorf("%s: got %d %s, want %d", key, status, body, want)
		}
		if status != http.StatusOK {
			continue
		}
		if err := matchesSchema(k.Handler, httptest.NewRequest("GET", "/v1/settings", nil), status, body); err != nil {
			t.Error(err)
		}
	}
}
