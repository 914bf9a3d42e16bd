package server

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// singleDir is the directory of a server that has stopped, with one message in a queue.
func singleDir(t *testing.T) string {
	t.Helper()
	cfg := config(t)
	s, stop := run(t, cfg)
	if code, body := call(t, s, "CreateQueue", `{"QueueName":"jobs"}`); code != 200 {
		t.Fatalf("CreateQueue answers %d %s", code, body)
	}
	url := fmt.Sprintf(`"QueueUrl":"http://%s/000000000000/jobs"`, s.Addr())
	if code, body := call(t, s, "SendMessage", fmt.Sprintf(`{%s,"MessageBody":"kept"}`, url)); code != 200 {
		t.Fatalf("SendMessage answers %d %s", code, body)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	return cfg.DataDir
}

// A converted directory has the rows of the server, whole, and is refused by all that works on the
// directory of a single server, with what to do.
func TestConvertDirectory(t *testing.T) {
	dir := singleDir(t)
	before := mustVerify(t, dir)
	c, err := Convert(dir, "127.0.0.1:9326")
	if err != nil {
		t.Fatal(err)
	}
	after := mustVerify(t, dir)
	if after.Applied != 1 {
		t.Errorf("the rows begin at entry %d, want 1", after.Applied)
	}
	after.TableBytes, before.TableBytes, after.Applied = 0, 0, 0
	if before.Messages != 1 || after != before || c.Group != before.Store || c.Commit < before.Commit {
		t.Errorf("converted %+v, verified %+v, before %+v", c, after, before)
	}
	for _, test := range []struct {
		what string
		do   func() error
		kind error
		says string
	}{
		{"serve", func() error { return openServer(dir) }, ErrConfig, "--cluster-listen"},
		{"salvage", func() error {
			_, err := Salvage(t.Context(), dir, t.TempDir(), nil)
			return err
		}, ErrConfig, "tenaq cluster replace OLD NEW"},
		{"restore", func() error {
			_, err := Restore(t.Context(), strings.NewReader(""), dir, nil)
			return err
		}, ErrInUse, "pass an empty directory"},
		{"convert", func() error {
			_, err := Convert(dir, "127.0.0.1:9326")
			return err
		}, ErrInUse, "belongs to a node of a cluster already"},
	} {
		if err := test.do(); !errors.Is(err, test.kind) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want that it says %q", test.what, err, test.says)
		}
	}
	if _, err := Convert(t.TempDir(), "127.0.0.1:9326"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("convert an empty directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "store")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a store was made beside the log: %v", err)
	}
}

// The directory of a single server is refused to a node, and so is a conversion while the store of
// an earlier one is in the way.
func TestDirectoryOfSingleServer(t *testing.T) {
	dir := singleDir(t)
	cfg := Config{DataDir: dir, Listen: "127.0.0.1:0", AdminListen: "off",
		ClusterListen: "127.0.0.1:0", ClusterToken: "t"}
	_, err := New(cfg)
	if want := "tenaq cluster convert " + dir; !errors.Is(err, ErrConfig) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("serve as a node: %v, want that it says %q", err, want)
	}
	if err := os.Mkdir(filepath.Join(dir, "store.before-cluster"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Convert(dir, "127.0.0.1:9326"); !errors.Is(err, ErrInUse) ||
		!strings.Contains(err.Error(), "move it away") {
		t.Errorf("convert: %v", err)
	}
	if mustVerify(t, dir).Messages != 1 {
		t.Error("the message is lost")
	}
}

// A conversion that was cut short at its end is completed by the start of the node.
func TestConversionCompleted(t *testing.T) {
	dir := singleDir(t)
	if _, err := Convert(dir, "127.0.0.1:9326"); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(dir, "store")
	if err := os.Rename(store+".before-cluster", store); err != nil {
		t.Fatal(err)
	}
	if err := checkKind(dir, false); !errors.Is(err, ErrConfig) {
		t.Errorf("to a single server: %v", err)
	}
	if err := checkKind(dir, true); err != nil {
		t.Errorf("to a node: %v", err)
	}
	if _, err := os.Stat(store); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the store is still there: %v", err)
	}
}

// receiveBody receives a message, and returns its body.
func receiveBody(t *testing.T, s *Server) string {
	t.Helper()
	answer := must(t, s, "ReceiveMessage", fmt.Sprintf(
		`{"QueueUrl":"http://%s/000000000000/jobs","WaitTimeSeconds":5}`, s.Addr()))
	_, body, _ := strings.Cut(answer, `"Body":"`)
	body, _, _ = strings.Cut(body, `"`)
	return body
}

// A single server becomes a cluster of one, a node joins it with a copy of the rows and takes over,
// and a backup of the cluster becomes a single server, which can be converted again.
func TestSingleToClusterAndBack(t *testing.T) {
	first := config(t)
	first.DataDir = singleDir(t)
	first.ClusterListen, first.ClusterToken = freeAddress(t), "the same on all"
	const alarms = `{"version":1,"alarms":[],"silences":[{"match":"x","until":"2099-01-01T00:00:00Z"}]}`
	if err := os.WriteFile(filepath.Join(first.DataDir, alarmsName), []byte(alarms), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Convert(first.DataDir, first.ClusterListen)
	if err != nil {
		t.Fatal(err)
	}
	s, stop := run(t, first)
	eventually(t, "the node leads", s.HasWriter)
	if body := receiveBody(t, s); body != "kept" {
		t.Fatalf("the node received %q, want what the server kept", body)
	}
	must(t, s, "SendMessage", fmt.Sprintf(
		`{"QueueUrl":"http://%s/000000000000/jobs","MessageBody":"by the node"}`, s.Addr()))
	status := s.node.Status(t.Context())
	if status.Group != c.Group || status.Node != c.Node || len(status.Members) != 1 {
		t.Errorf("status %+v, want group %s of node %s alone", status, c.Group, c.Node)
	}

	second := config(t)
	second.ClusterListen, second.ClusterToken = freeAddress(t), first.ClusterToken
	second.ClusterPeers = []string{first.ClusterListen}
	other, stopOther := run(t, second)
	eventually(t, "the second node has the rows", func() bool {
		_ = s.node.Join(t.Context(), second.ClusterListen) // refused until it waits
		for _, m := range s.node.Status(t.Context()).Members {
			if m.Address == second.ClusterListen {
				return m.Commit > c.Commit && m.Lag == 0
			}
		}
		return false
	})
	b := takeBackup(t, other) // made by the leader
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := stopOther(); err != nil {
		t.Fatal(err)
	}
	before := mustVerify(t, second.DataDir)
	if before.Messages < 1 || before.Entries == 0 || before.Applied == 0 || before.Store != c.Group {
		t.Errorf("the second node verifies as %+v", before)
	}

	back := config(t)
	r, err := Restore(t.Context(), bytes.NewReader(b), back.DataDir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Backup.Store != c.Group || r.Store == c.Group || r.Verified.Messages != 2 ||
		r.Backup.Commit <= c.Commit {
		t.Errorf("restored %+v, converted %+v", r, c)
	}
	if b, err := os.ReadFile(filepath.Join(back.DataDir, alarmsName)); err != nil ||
		!strings.Contains(string(b), `"silences"`) {
		t.Errorf("the restored alarms are %s, %v", b, err)
	}
	single, stop := run(t, back)
	if body := receiveBody(t, single); body != "by the node" {
		t.Errorf("the restored server received %q", body)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	again, err := Convert(back.DataDir, first.ClusterListen)
	if err != nil || again.Group != r.Store || again.Commit <= r.Backup.Commit {
		t.Errorf("converted again: %+v, %v", again, err)
	}
	mustVerify(t, back.DataDir)
}
