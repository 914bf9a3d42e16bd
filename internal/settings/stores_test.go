package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Stores of claims have a name and an address, and their passwords are never shown.
func TestClaimStores(t *testing.T) {
	read := func(text string) ([]ClaimStore, error) {
		path := filepath.Join(t.TempDir(), "tenaq.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := ReadConfigFile(path)
		if err != nil {
			return nil, err
		}
		return f.Stores, nil
	}
	stores, err := read(`claims:
  - {name: shop, records: "postgres://app:hidden@db.example.com/shop?sslmode=require&password=hidden"}
  - {name: jobs_2, records: "dynamodb:jobs"}
  - name: local
    records: sqlite:/var/lib/app/claims.db
`)
	var got []string
	for i := range stores {
		got = append(got, stores[i].Name+" "+stores[i].RecordsAddress())
	}
	want := "shop postgres://app@db.example.com/shop?sslmode=require, jobs_2 dynamodb:jobs, local sqlite:/var/lib/app/claims.db"
	if strings.Join(got, ", ") != want || err != nil {
		t.Errorf("got %q, %v, want %s", got, err, want)
	}
	if stores, err := read("claims:\n"); len(stores) != 0 || err != nil {
		t.Errorf("without entries: got %v, %v", stores, err)
	}
	for text, says := range map[string]string{
		"claims: {name: shop}":                                                            "tenaq.yaml:1: claims must be a list",
		"claims:\n  - {records: dynamodb:jobs}":                                           "tenaq.yaml:2: an entry of claims has no name",
		"claims:\n  - {name: shop}":                                                       "tenaq.yaml:2: the entry of shop has no records",
		"claims:\n  - {name: a b, records: dynamodb:jobs}":                                "name: must have 1 to 80 letters",
		"claims:\n  - {name: server, records: dynamodb:jobs}":                             "always shown; choose another one",
		"claims:\n  - {name: shop, records: server}":                                      "always shown; remove the entry",
		"claims:\n  - {name: shop, records: mysql://a:hidden@b}":                          `begins with "mysql" is not one of`,
		"claims:\n  - {name: shop, record: dynamodb:jobs}":                                `has no "record"`,
		"claims:\n  - {name: a, records: dynamodb:x}\n  - {name: a, records: dynamodb:y}": "line 2",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: got %v, want %q in it", text, err, says)
		}
	}
}

// Anything that could be a password is removed from an address. Other texts stay as they are.
func TestWithoutPassword(t *testing.T) {
	for address, want := range map[string]string{
		"":                            "",
		"a b":                         "a b",
		"postgres data":               "postgres data",
		"dynamodb:jobs":               "dynamodb:jobs",
		"sqlite:///var/a%zz:b@c.db":   "sqlite:///var/a%zz:b@c.db",
		"https://queue.example.com/a": "https://queue.example.com/a",
		"https://app@docs.example.com/{kind}?a={kind}&b":          "https://app@docs.example.com/{kind}?a={kind}&b",
		"https://:hidden@docs.example.com/{kind}":                 "https://@docs.example.com/{kind}",
		"https://app:hid:den@docs.example.com/{kind}?c=d":         "https://app@docs.example.com/{kind}?c=d",
		"postgres://app:hid%40den@db/a?sslpassword=hidden&b=c":    "postgres://app@db/a?b=c",
		"postgres://app@db/a?password=hidden&sslmode=disable&b=c": "postgres://app@db/a?b=c&sslmode=disable",
		"postgres://app@db/a?password=hidden;b":                   "postgres:",
		"postgres://app:hid/den@db/a":                             "postgres:",
		"postgres://app:hid%zzden@db/a":                           "postgres:",
	} {
		if got := withoutPassword(address); got != want {
			t.Errorf("%q: got %q, want %q", address, got, want)
		}
	}
}
