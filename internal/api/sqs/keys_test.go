package sqs

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"tenaq/internal/door/auth"
	"tenaq/internal/door/credentials"
)

// scriptKeys are the keys that scripts can sign with, by the name of their user: whose they are and
// what they may do.
var scriptKeys = map[string]struct{ account, allow string }{
	"root":     {"111111111111", `"*"`},
	"admin":    {"111111111111", `"sqs:*"`},
	"clerk":    {"111111111111", `"sqs:SendMessage"`},
	"guest":    {"222222222222", `"sqs:*"`},
	"reader":   {"222222222222", `"sqs:ReceiveMessage"`},
	"stranger": {"333333333333", `"*"`},
}

const scriptRegion = "us-east-1"

func scriptKey(name string) aws.Credentials {
	return aws.Credentials{AccessKeyID: "TQ" + strings.ToUpper(name), SecretAccessKey: "the-secret-key-of-" + name}
}

// scriptDoor is a door for the keys of scripts.
func scriptDoor(t testing.TB) *auth.Door {
	t.Helper()
	var entries []string
	for name, k := range scriptKeys { // order does not matter: each is for itself
		key := scriptKey(name)
		entries = append(entries, fmt.Sprintf(`{"id": %q, "secret": %q, "account": %q, "name": %q, "allow": [%s]}`,
			key.AccessKeyID, key.SecretAccessKey, k.account, name, k.allow))
	}
	path := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(path, []byte(`{"credentials": [`+strings.Join(entries, ",")+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := credentials.Open(credentials.Config{File: path})
	if err != nil {
		t.Fatal(err)
	}
	return auth.New(auth.Config{Credentials: set, Account: account, Region: scriptRegion})
}

// sign adds the headers of a signature to a request as it is sent. Without a name it stays as it
// is.
func sign(t testing.TB, name, request string) string {
	t.Helper()
	if name == "" {
		return request
	}
	head, body, _ := strings.Cut(request, "\r\n\r\n")
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(request)))
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Scheme, r.URL.Host = "http", r.Host
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(body)))
	if err := v4.NewSigner().SignHTTP(context.Background(), scriptKey(name), r, sum, "sqs", scriptRegion, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"X-Amz-Date", "Authorization"} {
		head += "\r\n" + header + ": " + r.Header.Get(header)
	}
	return head + "\r\n\r\n" + body
}
