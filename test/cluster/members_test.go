package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tenaq/internal/child"
	"tenaq/internal/cluster"
	"tenaq/internal/testing/audit/load"
	"tenaq/internal/testing/proof"
)

// Nodes come and go under load: a fourth joins, the leader is removed, and a member that has lost
// its disk is replaced.
func TestMembers(t *testing.T) {
	seed := proof.Seed(t)
	r := newRig(t, false)
	r.standard(seed)
	r.judge(func(ctx context.Context) error {
		fourth, err := r.Add()
		if err != nil {
			return err
		}
		id, ready, err := r.Introduce(ctx, fourth)
		if err != nil {
			return err
		}
		if err := r.Tenaq(ctx, "cluster", "join", id); err != nil {
			return err
		}
		if _, err := r.Await(ctx, "there are four voters", voters(4)); err != nil {
			return err
		}
		if err := <-ready; err != nil {
			return err
		}
		leader, err := r.Leader(ctx)
		if err != nil {
			return err
		}
		if err := r.Tenaq(ctx, "cluster", "remove", leader.Address); err != nil {
			return err
		}
		if err := r.answered(ctx, "the removal of the leader"); err != nil {
			return err
		}
		if _, err := r.Await(ctx, "there are three voters", voters(3)); err != nil {
			return err
		}
		leader.Close()
		r.Nodes = slices.DeleteFunc(r.Nodes, func(n *child.Node) bool { return n == leader })
		if leader, err = r.Leader(ctx); err != nil {
			return err
		}
		if err := leader.Kill(); err != nil {
			return err
		}
		return r.renew(ctx, leader)
	})
	r.equal(3)
}

func voters(want int) func(cluster.Status) bool {
	return func(s cluster.Status) bool {
		have := 0
		for _, m := range s.Members {
			if m.Voter && (m.Role == cluster.Leader || m.Role == cluster.Follower) {
				have++
			}
		}
		return have == want && len(s.Members) == want
	}
}

// renew replaces a node that does not run by one with an empty directory.
func (r *rig) renew(ctx context.Context, n *child.Node) error {
	_, ready, err := r.Renew(ctx, n)
	if err != nil {
		return err
	}
	if _, err := r.Await(ctx, "there are three voters", voters(3)); err != nil {
		return err
	}
	return <-ready
}

// A node whose log has changed on disk does not start, and one whose rows have does not serve them.
// Either is replaced, and the rest serves meanwhile.
func TestDamage(t *testing.T) {
	seed := proof.Seed(t)
	r := newRig(t, false)
	r.standard(seed)
	r.judge(func(ctx context.Context) error {
		for _, damage := range []struct{ files, what string }{
			{"raft/store/*.log", "the log"},
			{"groups/1/state/*.sst", "the rows"},
		} {
			leader, err := r.Leader(ctx)
			if err != nil {
				return err
			}
			n := r.Nodes[0]
			if n == leader {
				n = r.Nodes[1]
			}
			if err := n.Stop(); err != nil {
				return err
			}
			if err := flip(filepath.Join(n.DataDir(), damage.files)); err != nil {
				return err
			}
			if err := r.answered(ctx, "damage to "+damage.what+" of a follower"); err != nil {
				return err
			}
			if _, err := n.Start(ctx); err == nil || !strings.Contains(err.Error(), "exit status 6") {
				t.Errorf("a node with damage to %s: got %v, want exit status 6", damage.what, err)
				n.Close()
			}
			if err := r.renew(ctx, n); err != nil {
				return err
			}
		}
		return nil
	})
	r.equal(3)
}

// flip changes a bit in the middle of each page of the files.
func flip(pattern string) error {
	names, err := filepath.Glob(pattern)
	if err == nil && len(names) == 0 {
		err = errors.New("there is no file " + pattern)
	}
	for _, name := range names {
		text, readErr := os.ReadFile(name)
		err = errors.Join(err, readErr)
		for i := min(2048, len(text)/2); i < len(text); i += 4096 {
			text[i] ^= 1
		}
		err = errors.Join(err, os.WriteFile(name, text, 0o600))
	}
	return err
}

// A node whose disk is full ends, and the others serve. With room again it comes back.
func TestDiskFull(t *testing.T) {
	seed := proof.Seed(t)
	r := newRig(t, false)
	full := r.Nodes[2]
	r.must(full.Stop())
	r.must(os.Rename(full.DataDir(), full.DataDir()+".before"))
	r.must(os.Mkdir(full.DataDir(), 0o700))
	mount := func(flags uintptr, options string) error {
		return syscall.Mount("tmpfs", full.DataDir(), "tmpfs", flags, options)
	}
	if err := mount(0, "size=24m"); errors.Is(err, syscall.EPERM) {
		proof.Missing(t, "this user may not mount file systems: run it as root")
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.Close()
		if err := syscall.Unmount(full.DataDir(), syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	r.must(os.RemoveAll(filepath.Join(full.DataDir()+".before", "ballast")))
	r.must(os.CopyFS(full.DataDir(), os.DirFS(full.DataDir()+".before")))
	_, err := full.Start(t.Context())
	r.must(err)
	url, _ := r.queue("orders", nil)
	padding := strings.Repeat("x", 100<<10)
	r.with(seed, url, func(cfg *load.Config) {
		body := cfg.Body
		cfg.Body = func(n int) string { return body(n) + padding }
	})
	r.judge(func(ctx context.Context) error {
		if _, err := r.Await(ctx, "the full node is away", func(s cluster.Status) bool {
			return slices.ContainsFunc(s.Members, func(m cluster.Member) bool {
				return m.Address == full.Address && m.Role == cluster.Unreachable
			})
		}); err != nil {
			return err
		}
		if err := full.Kill(); err == nil || !strings.Contains(err.Error(), "exit status 7") {
			t.Errorf("a node with a full disk: got %v, want exit status 7", err)
		}
		if err := r.answered(ctx, "a full disk"); err != nil {
			return err
		}
		if err := mount(syscall.MS_REMOUNT, "size=512m"); err != nil {
			return err
		}
		_, err := full.Start(ctx)
		return err
	})
	r.equal(3)
}
