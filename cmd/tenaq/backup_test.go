package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"tenaq/internal/child"
	"tenaq/internal/cli"
	"tenaq/internal/testing/mototest"
)

// A bucketRig is a server with messages, and a bucket behind a proxy that can fail.
type bucketRig struct {
	*testing.T
	server  *child.Server
	client  *s3.Client // past the proxy
	bucket  string
	disturb atomic.Pointer[func(w http.ResponseWriter, r *http.Request) (done bool)]
}

var bucketCount atomic.Int64

func newBucketRig(t *testing.T, megabytes int) *bucketRig {
	t.Helper()
	target, err := url.Parse(mototest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	r := &bucketRig{T: t, bucket: "backups" + string(rune('a'+bucketCount.Add(1)))}
	forward := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if f := r.disturb.Load(); f == nil || !(*f)(w, req) {
			forward.ServeHTTP(w, req)
		}
	}))
	t.Cleanup(proxy.Close)
	r.client = s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: aws.String(target.String()),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""), UsePathStyle: true})
	if _, err := r.client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &r.bucket}); err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("tenaq")
	if err != nil {
		t.Fatal(err)
	}
	if r.server, err = child.New(child.Config{Program: program, Dir: t.TempDir(), Env: []string{raceEnv}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.server.Close)
	if _, err := r.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"TENAQ_ENDPOINT_URL": r.server.URL(), "AWS_ENDPOINT_URL_S3": proxy.URL,
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"} {
		t.Setenv(name, value)
	}
	wantExecute(t, cli.ExitOK, "orders", "queue", "create", "orders")
	for range megabytes {
		body := make([]byte, 760_000) // which no compression makes smaller
		rand.Read(body)
		file := filepath.Join(t.TempDir(), "body")
		if err := os.WriteFile(file, []byte(base64.StdEncoding.EncodeToString(body)), 0o600); err != nil {
			t.Fatal(err)
		}
		wantExecute(t, cli.ExitOK, "", "send", "orders", "--file", file)
	}
	return r
}

// refuse lets the store answer requests of a method and a parameter with a status.
func (r *bucketRig) refuse(status int, method, parameter string, times int64) {
	var n atomic.Int64
	f := func(w http.ResponseWriter, req *http.Request) bool {
		if req.Method != method || !strings.Contains(req.URL.RawQuery, parameter) || n.Add(1) > times {
			return false
		}
		w.WriteHeader(status)
		return true
	}
	r.disturb.Store(&f)
}

func (r *bucketRig) folder() string { return "s3://" + r.bucket + "/nightly/" }

// backups returns what the command lists, newest first.
func (r *bucketRig) backups() (urls []string) {
	r.Helper()
	code, stdout, stderr := execute(r.T, "backup", "list", r.folder(), "--json")
	var listed struct{ Backups []struct{ URL string } }
	if err := json.Unmarshal([]byte(stdout), &listed); code != cli.ExitOK || err != nil {
		r.Fatalf("list: exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	for _, b := range listed.Backups {
		urls = append(urls, b.URL)
	}
	return urls
}

// unfinished returns how many uploads the bucket keeps parts of.
func (r *bucketRig) unfinished() int {
	r.Helper()
	found, err := r.client.ListMultipartUploads(r.Context(), &s3.ListMultipartUploadsInput{Bucket: &r.bucket})
	if err != nil {
		r.Fatal(err)
	}
	return len(found.Uploads)
}

func (r *bucketRig) wantBackups(n, unfinished int) {
	r.Helper()
	if got := r.backups(); len(got) != n || r.unfinished() != unfinished {
		r.Errorf("%d backups and %d unfinished ones, want %d and %d: %q", len(got), r.unfinished(), n, unfinished, got)
	}
}

// Backups go into a bucket and come back. Old ones go, but only those of this server.
// [DUR-38, DUR-39]
func TestBackupBucket(t *testing.T) {
	r := newBucketRig(t, 1)
	wantExecute(t, cli.ExitNotFound, "has no backup; check the address, or take one", "restore", r.folder(), "--data-dir", t.TempDir())
	foreign := []string{"nightly/notes.txt", "nightly/tenaq-20260101T000000.000Z-0123456789abcdef.tar", "other/tenaq.tar"}
	for _, key := range foreign {
		if _, err := r.client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &r.bucket, Key: &key, Body: strings.NewReader("-")}); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		wantExecute(t, cli.ExitOK, "backup of store", "backup", strings.TrimSuffix(r.folder(), "/"), "--keep", "2")
		wantExecute(t, cli.ExitOK, "", "send", "orders", "sent later")
	}
	r.wantBackups(3, 0) // two of this server, and that of another
	all := r.backups()
	left, err := r.client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &r.bucket})
	if err != nil || len(left.Contents) != 2+len(foreign) {
		t.Errorf("%d objects are left and %v, want %d", len(left.Contents), err, 2+len(foreign))
	}

	newest, older := filepath.Join(t.TempDir(), "newest"), filepath.Join(t.TempDir(), "older")
	wantExecute(t, cli.ExitOK, "messages 3,", "restore", r.folder(), "--data-dir", newest)
	wantExecute(t, cli.ExitOK, "messages 2,", "restore", all[1], "--data-dir", older)
	wantExecute(t, cli.ExitOK, "findings 0", "verify", "--data-dir", newest)
	t.Setenv("TMPDIR", t.TempDir())
	wantExecute(t, cli.ExitOK, all[0]+": whole and consistent", "backup", "verify", r.folder())
	wantExecute(t, cli.ExitDamaged, "truncated", "backup", "verify", all[2])
	if kept, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(kept) > 0 {
		t.Errorf("%v and %v are left of the trials, want nothing", kept, err)
	}

	wantExecute(t, cli.ExitNotFound, "there is no such backup", "restore", r.folder()+"none.tar", "--data-dir", t.TempDir())
	wantExecute(t, cli.ExitNotFound, "has no bucket nowhere; create it", "backup", "s3://nowhere/")
	wantExecute(t, cli.ExitUsage, "names a backup; name a folder", "backup", all[0])
	wantExecute(t, cli.ExitUsage, "names no bucket", "backup", "s3:///x")
	wantExecute(t, cli.ExitUsage, "are for backups in a bucket", "backup", "file.tar", "--keep", "3")
	r.refuse(http.StatusForbidden, "DELETE", "", 100)
	wantExecute(t, cli.ExitPartly, "the backup is stored, but older ones are left", "backup", r.folder(), "--keep", "1")
}

// A failed upload leaves no backup and no parts; a fault that passes only delays it. [DUR-38]
func TestBackupBucketFails(t *testing.T) {
	r := newBucketRig(t, 20)
	r.refuse(http.StatusServiceUnavailable, "PUT", "partNumber=2", 1)
	wantExecute(t, cli.ExitOK, "backup of store", "backup", r.folder())
	r.wantBackups(1, 0)
	wantExecute(t, cli.ExitOK, "whole and consistent", "backup", "verify", r.folder())

	r.refuse(http.StatusInternalServerError, "PUT", "partNumber=2", 1000)
	wantExecute(t, cli.ExitFailed, "store the backup", "backup", r.folder(), "--keep", "1")
	r.wantBackups(1, 0)

	r.refuse(http.StatusInternalServerError, "GET", "", 1000)
	wantExecute(t, cli.ExitFailed, "read s3://", "restore", r.backups0(), "--data-dir", filepath.Join(t.TempDir(), "new"))
	r.disturb.Store(nil)

	// The server dies while it is read: what arrives ends in the second part.
	target, err := url.Parse(r.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	dying := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) },
		ModifyResponse: func(resp *http.Response) error {
			resp.Body = struct {
				io.Reader
				io.Closer
			}{io.LimitReader(resp.Body, 18_000_000), resp.Body}
			return nil
		},
	})
	defer dying.Close()
	t.Setenv("TENAQ_ENDPOINT_URL", dying.URL)
	wantExecute(t, cli.ExitFailed, "is incomplete", "backup", r.folder())
	r.wantBackups(1, 0)
}

// backups0 is the address of the newest backup, from before the bucket failed.
func (r *bucketRig) backups0() string {
	r.Helper()
	f := r.disturb.Swap(nil)
	defer r.disturb.Store(f)
	return r.backups()[0]
}

// holdPart lets the store take the second part of a backup only when it may: it sends a channel
// that is to be closed.
func (r *bucketRig) holdPart() <-chan chan struct{} {
	reached := make(chan chan struct{}, 1)
	var once atomic.Bool
	f := func(_ http.ResponseWriter, req *http.Request) bool {
		if req.Method == "PUT" && strings.Contains(req.URL.RawQuery, "partNumber=2") && !once.Swap(true) {
			release := make(chan struct{})
			reached <- release
			<-release
		}
		return false
	}
	r.disturb.Store(&f)
	return reached
}

// A command that is killed leaves no backup, and the next one removes its parts. [DUR-38, DUR-40]
func TestBackupBucketKilled(t *testing.T) {
	r := newBucketRig(t, 20)
	reached := r.holdPart()
	cmd := exec.Command("tenaq", "backup", r.folder())
	cmd.Env = append(os.Environ(), raceEnv)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	release := <-reached
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	close(release)
	r.disturb.Store(nil)
	r.wantBackups(0, 1)

	// The server frees its links to the files as soon as it notices.
	code, text := 0, ""
	for range 100 {
		var stdout, stderr string
		if code, stdout, stderr = execute(t, "backup", r.folder()); code == cli.ExitOK {
			break
		}
		text = stdout + stderr
		time.Sleep(100 * time.Millisecond)
	}
	if code != cli.ExitOK {
		t.Fatalf("the next backup: %s", text)
	}
	r.wantBackups(1, 0)
}
