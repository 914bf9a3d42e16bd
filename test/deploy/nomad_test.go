package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	texts "text/template"
	"time"
)

// A nomadJob is what the tests read of a job, in the form of Nomad's API.
type nomadJob struct {
	ID         string
	TaskGroups []nomadGroup
}

type nomadGroup struct {
	Count    *int
	Networks []struct {
		DynamicPorts []struct {
			Label string
			To    int
		}
	}
	Services []struct {
		PortLabel string
		Checks    []struct{ Path, PortLabel string }
	}
	Tasks []struct {
		Env         map[string]string
		Config      struct{ Args []string }
		KillSignal  string
		KillTimeout time.Duration
		Templates   []struct {
			DestPath, EmbeddedTmpl, Perms, ChangeMode, ChangeSignal string
		}
		VolumeMounts []struct{ Destination string }
	}
}

func nomad(t *testing.T, file string, values ...string) (job nomadJob, err error) {
	t.Helper()
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := tool(t, "", slices.Concat([]string{"run", "./nomad", path}, values)...)
	if err == nil {
		err = json.Unmarshal([]byte(text), &job)
	}
	return job, err
}

const jobs = "../../deploy/nomad/"

// Nomad knows every block and attribute of the jobs. Their processes start with the files that the
// templates make of a variable, pass the checks, take keys that are added to the variable, and end
// in time when Nomad tells them to. The three of a cluster form one.
func TestNomad(t *testing.T) {
	for file, nodes := range map[string]int{"single.nomad.hcl": 1, "cluster.nomad.hcl": 3} {
		t.Run(file, func(t *testing.T) {
			values, peers := []string{"image=tenaq"}, []string{""}
			if nodes > 1 {
				peers = []string{free(t), free(t), free(t)}
				values = append(values, "peers="+strings.Join(peers, ","))
			}
			job, err := nomad(t, jobs+file, values...)
			if err != nil {
				t.Fatal(err)
			}
			if len(job.TaskGroups) != 1 || len(job.TaskGroups[0].Tasks) != 1 {
				t.Fatalf("got %+v, want one task", job)
			}
			g := &job.TaskGroups[0]
			if g.Count != nil && *g.Count != nodes || g.Count == nil && nodes != 1 {
				t.Fatalf("got %d tasks, want %d", *g.Count, nodes)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			g.run(ctx, t, job.ID, peers)
		})
	}
}

// nomadListens are the variables that say where the ports of a job are.
var nomadListens = map[string]string{"sqs": "TENAQ_LISTEN", "admin": "TENAQ_ADMIN_LISTEN",
	"cluster": "TENAQ_CLUSTER_LISTEN"}

// run runs the task of a group on each client, whose addresses for the ports of nodes are peers.
func (g *nomadGroup) run(ctx context.Context, t *testing.T, id string, peers []string) {
	task, node := &g.Tasks[0], identity(t)
	for _, p := range g.Networks[0].DynamicPorts {
		if listen := task.Env[nomadListens[p.Label]]; listen != fmt.Sprint("0.0.0.0:", p.To) {
			t.Errorf("the port %s leads to %d, where nothing listens: %q", p.Label, p.To, listen)
		}
	}
	if m := task.VolumeMounts; len(m) != 1 || filepath.Dir(task.Env["TENAQ_DATA_DIR"]) != m[0].Destination {
		t.Errorf("the data of %q is not in the volume %+v", task.Env["TENAQ_DATA_DIR"], m)
	}
	items := map[string]string{"keys": keysOf("TQMAIN", "TQSHOP"), "ca": string(read(t, node+"/ca.pem")),
		"cert": string(read(t, node+"/node.pem")), "key": string(read(t, node+"/node-key.pem"))}
	var pods []pod
	var running []*exec.Cmd
	dirs := make([]string, len(peers))
	for i, peer := range peers {
		dirs[i] = t.TempDir()
		g.write(t, id, dirs[i], items)
		p := pod{args: task.Config.Args, env: map[string]string{}}
		for name, value := range task.Env {
			p.env[name] = strings.NewReplacer("${NOMAD_SECRETS_DIR}", dirs[i]+"/secrets",
				"${NOMAD_ADDR_cluster}", peer).Replace(value)
		}
		p.env["TENAQ_LISTEN"], p.env["TENAQ_ADMIN_LISTEN"] = free(t), free(t)
		if peer != "" {
			p.env["TENAQ_CLUSTER_LISTEN"] = peer
		}
		p.env["TENAQ_DATA_DIR"] = filepath.Join(dirs[i], "data")
		pods, running = append(pods, p), append(running, p.start(ctx, t))
	}
	for _, p := range pods {
		for _, s := range g.Services {
			for _, c := range s.Checks {
				label := c.PortLabel
				if label == "" {
					label = s.PortLabel
				}
				passes(ctx, t, p.env[nomadListens[label]], c.Path)
			}
		}
	}

	last := pods[len(pods)-1]
	pods[0].client(ctx, t, "TQMAIN", "queue", "create", "orders")
	pods[0].client(ctx, t, "TQSHOP", "send", "orders", "hello")
	if got := last.client(ctx, t, "TQMAIN", "receive", "orders", "--delete"); !strings.Contains(got, "hello") {
		t.Errorf("received %q, want hello", got)
	}
	items["keys"] = keysOf("TQMAIN", "TQSHOP", "TQMORE")
	for i, cmd := range running {
		for _, change := range g.write(t, id, dirs[i], items) {
			if err := cmd.Process.Signal(change); err != nil {
				t.Fatal(err)
			}
		}
	}
	for { // a signal is not answered
		more := pod{args: []string{"queue", "list", "--endpoint-url", "http://" + last.env["TENAQ_LISTEN"]},
			env: map[string]string{"TENAQ_ACCESS_KEY_ID": "TQMORE", "TENAQ_SECRET_ACCESS_KEY": secretOf("TQMORE")}}
		out, err := more.command(ctx, t).CombinedOutput()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("the new key: %v\n%s", err, out)
		}
	}

	for _, cmd := range running {
		if err := cmd.Process.Signal(nomadSignals[task.KillSignal]); err != nil {
			t.Fatal(err)
		}
		kill := time.AfterFunc(task.KillTimeout, func() { cmd.Process.Kill() })
		err := cmd.Wait()
		kill.Stop()
		if err != nil {
			t.Errorf("after %s: %v", task.KillSignal, err)
		}
	}
}

var nomadSignals = map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGHUP": syscall.SIGHUP}

// write writes the files of the templates, and returns the signals for those that differ from the
// files before.
func (g *nomadGroup) write(t *testing.T, id, dir string, items map[string]string) (signals []os.Signal) {
	t.Helper()
	for _, f := range g.Tasks[0].Templates {
		text, err := texts.New(f.DestPath).Option("missingkey=error").Funcs(texts.FuncMap{
			"nomadVar": func(path string) (map[string]string, error) {
				if path != "nomad/jobs/"+id { // the only one that a job may read without a policy
					return nil, fmt.Errorf("the job may not read %s", path)
				}
				return items, nil
			},
		}).Parse(f.EmbeddedTmpl)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := text.Execute(&b, nil); err != nil {
			t.Fatal(err)
		}
		mode, err := strconv.ParseUint(f.Perms, 8, 9)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, f.DestPath)
		before, err := os.ReadFile(name)
		if err == nil && bytes.Equal(before, b.Bytes()) {
			continue
		}
		if err == nil && f.ChangeMode == "signal" {
			signals = append(signals, nomadSignals[f.ChangeSignal])
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name+".new", b.Bytes(), os.FileMode(mode)); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(name+".new", name); err != nil {
			t.Fatal(err)
		}
	}
	return signals
}

func TestNomadRefuses(t *testing.T) {
	text := string(read(t, jobs+"single.nomad.hcl"))
	for right, wrong := range map[string]string{
		"kill_timeout ":               "kill_timeouts ",          // an attribute that Nomad's API does not have
		"restart {":                   "restarts {",              // a block
		`volume "data" {`:             `volume {`,                // a label is missing
		`= "20s"`:                     `= "20 s"`,                // no duration
		`attempts = 5`:                `attempts = "five"`,       // no number
		"readonly_rootfs":             "read_only",               // unknown to the driver
		`port     = "admin"`:          `port     = "health"`,     // a port that is not there
		`volume      = "data"`:        `volume      = "date"`,    // a volume
		"var.image":                   "var.picture",             // a variable
		`type     = "http"`:           `type     = "script"`,     // a check that Nomad does not run
		"update {":                    "update {}\n    update {", // twice
		"${NOMAD_SECRETS_DIR}/":       "${secrets_dir}/",         // neither here nor where the task runs
		`image           = var.image`: `command = "serve"`,       // the image is missing
	} {
		if !strings.Contains(text, right) {
			t.Fatalf("the job has no %q", right)
		}
		name := filepath.Join(t.TempDir(), "wrong.nomad.hcl")
		if err := os.WriteFile(name, []byte(strings.Replace(text, right, wrong, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := nomad(t, name, "image=tenaq"); err == nil || !strings.Contains(err.Error(), "wrong.nomad.hcl") {
			t.Errorf("%q passes: %v", wrong, err)
		}
	}
}
