// Package deploy shows that Kubernetes, Compose, Nomad and tenaq accept what the folder deploy
// describes: the chart is rendered, its objects are checked against the types of Kubernetes,
// compose files against the specification of Compose, jobs against the types of Nomad's API, and
// the commands of all containers run.
package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"tenaq/internal/testing/built"
	"tenaq/internal/testing/proof"
)

const (
	chart = "../../deploy/helm/tenaq"
	tools = "testdata/tools" // a module of its own: nothing of it is linked into tenaq

	nowhere = "/nonexistent" // the home of programs that keep nothing
)

func TestMain(m *testing.M) { os.Exit(built.Tests(m)) }

// command is one of go, in the module with the tools.
func command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = tools
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=readonly -trimpath -buildvcs=false", "GOWORK=off",
		"CGO_ENABLED=0", "HELM_CACHE_HOME="+nowhere, "HELM_CONFIG_HOME="+nowhere, "HELM_DATA_HOME="+nowhere)
	return cmd
}

// modules fetches what the tools import, as far as it is not here.
var modules = sync.OnceValues(func() ([]byte, error) {
	return command(context.Background(), "list", "-deps", "./...",
		"helm.sh/helm/v3/cmd/helm").CombinedOutput()
})

// tool runs a command of the module with the tools. Without its modules the test is skipped, or
// fails where all are required.
func tool(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles Helm: not in the short form")
	}
	if out, err := modules(); err != nil {
		proof.Missing(t, fmt.Sprintf("no modules for test/deploy/%s; go mod download there fetches them: %v\n%s",
			tools, err, out))
	}
	cmd := command(t.Context(), args...)
	cmd.Stdin = strings.NewReader(input)
	var text, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &text, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s%s", strings.Join(args, " "), err, &text, &errs)
	}
	return text.String(), nil
}

// helm runs Helm on the chart.
func helm(t *testing.T, verb, values string) (string, error) {
	t.Helper()
	path, err := filepath.Abs(chart)
	if err != nil {
		t.Fatal(err)
	}
	// Otherwise Helm takes a version that depends on how it was built. This is the oldest allowed.
	args := []string{"tool", "helm", verb, "--values", "-", "--kube-version", "1.30.0"}
	if verb == "template" {
		args = append(args, "tenaq")
	} else {
		args = append(args, "--strict")
	}
	return tool(t, values, append(args, path)...)
}

func render(t *testing.T, values string) string {
	t.Helper()
	text, err := helm(t, "template", values)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// everything switches on all that the chart can do.
const everything = `
nodes: 5
image: {repository: registry.example.com/tenaq, tag: 1.2.3, pullSecrets: [registry]}
config:
  purge-interval: 0s
  queues: [{name: orders, attributes: {VisibilityTimeout: 60}}]
keysSecret: tenaq-keys
storage: {size: 1Ti, class: fast}
nodeSelector: {disk: ssd}
tolerations: [{key: queue, operator: Exists}]
backup: {to: "s3://backups/tenaq/", serviceAccount: backup}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
networkPolicy: {enabled: true}
`

// Helm finds nothing to complain of, Kubernetes knows every field, and tenaq accepts every command.
func TestChart(t *testing.T) {
	for name, c := range map[string]struct {
		values string
		kinds  []string
	}{
		"single": {"{}", []string{"Service", "Service", "StatefulSet"}},
		"cluster": {"nodes: 3", []string{"PodDisruptionBudget", "Service", "Service",
			"StatefulSet"}},
		"everything": {everything, []string{"ConfigMap", "CronJob", "NetworkPolicy",
			"PodDisruptionBudget", "Service", "Service", "ServiceMonitor", "StatefulSet"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := helm(t, "lint", c.values); err != nil {
				t.Error(err)
			}
			text := render(t, c.values)
			if _, err := tool(t, text, "run", "./kubernetes"); err != nil {
				t.Error(err)
			}
			var kinds []string
			for _, o := range objects(t, text) {
				kinds = append(kinds, o.Kind)
				for _, p := range o.pods() {
					accepted(t, p)
				}
			}
			slices.Sort(kinds)
			if !slices.Equal(kinds, c.kinds) {
				t.Errorf("got %v, want %v", kinds, c.kinds)
			}
		})
	}
}

// Values that the chart cannot carry out are refused before anything is installed, and the check
// against the types of Kubernetes notices an unknown field.
func TestChartRefuses(t *testing.T) {
	for values, path := range map[string]string{"nodes: 2": "/nodes", "nodez: 3": "nodez",
		"backup: {to: /backups}": "/backup/to", "storage: {size: large}": "/storage/size", "keysSecret: [a]": "/keysSecret"} {
		if _, err := helm(t, "template", values); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want an error at %s", values, err, path)
		}
	}
	text := strings.Replace(render(t, "{}"), "serviceName:", "servicename:", 1)
	if _, err := tool(t, text, "run", "./kubernetes"); err == nil || !strings.Contains(err.Error(), "servicename") {
		t.Errorf("got %v, want the unknown field", err)
	}
}

// An object is what the tests read of one in Kubernetes.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Replicas    int
		Template    template
		JobTemplate struct{ Spec struct{ Template template } } `yaml:"jobTemplate"`
	}
}

type template struct {
	Spec struct {
		Containers []struct {
			Args         []string
			Env          []struct{ Name, Value string }
			VolumeMounts []struct {
				Name string
				Path string `yaml:"mountPath"`
			} `yaml:"volumeMounts"`
		}
		Volumes []struct {
			Name   string
			Secret struct {
				SecretName  string `yaml:"secretName"`
				DefaultMode int    `yaml:"defaultMode"`
			}
		}
	}
}

// A pod is a command of tenaq and its environment.
type pod struct {
	args []string
	env  map[string]string
}

func objects(t *testing.T, text string) (all []object) {
	t.Helper()
	for d := yaml.NewDecoder(strings.NewReader(text)); ; {
		var o object
		err := d.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
}

// pods returns what the pods of an object run. Secrets are made up.
func (o object) pods() (all []pod) {
	containers := slices.Concat(o.Spec.Template.Spec.Containers,
		o.Spec.JobTemplate.Spec.Template.Spec.Containers)
	for i := range max(o.Spec.Replicas, 1) {
		for _, c := range containers {
			p := pod{args: c.Args, env: map[string]string{}}
			for _, v := range c.Env {
				p.env[v.Name] = strings.ReplaceAll(v.Value, "$(POD)", fmt.Sprint(o.Metadata.Name, "-", i))
			}
			for name, value := range map[string]string{"TENAQ_ACCESS_KEY_ID": "TQMAIN",
				"TENAQ_SECRET_ACCESS_KEY": secretOf("TQMAIN")} {
				if _, ok := p.env[name]; ok {
					p.env[name] = value
				}
			}
			all = append(all, p)
		}
	}
	return all
}

// command runs a command of a pod, and nothing from the environment of the test.
func (p pod) command(ctx context.Context, t *testing.T, more ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, built.Program(t), slices.Concat(p.args, more)...)
	cmd.Env = []string{"HOME=" + nowhere}
	for _, name := range slices.Sorted(maps.Keys(p.env)) {
		cmd.Env = append(cmd.Env, name+"="+p.env[name])
	}
	return cmd
}

// start starts the server of a pod.
func (p pod) start(ctx context.Context, t *testing.T) *exec.Cmd {
	t.Helper()
	var log bytes.Buffer
	cmd := p.command(ctx, t)
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", p.env["TENAQ_LISTEN"], &log)
		}
	})
	return cmd
}

// secretOf is the secret of a key.
func secretOf(key string) string { return "0123456789-" + key }

// keysOf is a file of keys: TQSHOP may send and nothing else, and others may do everything.
func keysOf(keys ...string) string {
	var all []string
	for _, key := range keys {
		allow := `"*"`
		if key == "TQSHOP" {
			allow = `"sqs:GetQueueUrl", "sqs:SendMessage"`
		}
		all = append(all, fmt.Sprintf(`{"id": %q, "secret": %q, "allow": [%s]}`, key, secretOf(key), allow))
	}
	return fmt.Sprintf(`{"credentials": [%s]}`, strings.Join(all, ",\n"))
}

// client runs a command against the server of a pod, with one of its keys.
func (p pod) client(ctx context.Context, t *testing.T, key string, args ...string) string {
	t.Helper()
	c := pod{args: append(args, "--endpoint-url", "http://"+p.env["TENAQ_LISTEN"]),
		env: map[string]string{"TENAQ_ACCESS_KEY_ID": key, "TENAQ_SECRET_ACCESS_KEY": secretOf(key)}}
	out, err := c.command(ctx, t).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// accepted checks the flags and variables of a pod: serve prints its settings, which it has checked
// before, and other commands read their flags before they print their help.
func accepted(t *testing.T, p pod) {
	t.Helper()
	last := "--help"
	if p.args[0] == "serve" {
		last = "--print-config"
	}
	if p.env["TENAQ_CLUSTER_IDENTITY"] != "" {
		p.env["TENAQ_CLUSTER_IDENTITY"] = identity(t)
	}
	delete(p.env, "TENAQ_CONFIG") // its file is checked by TestConfigOfTheChart
	if out, err := p.command(t.Context(), t, last).CombinedOutput(); err != nil {
		t.Errorf("%v: %v\n%s", p.args, err, out)
	}
}

// The ConfigMap is a file that serve reads.
func TestConfigOfTheChart(t *testing.T) {
	all := objects(t, render(t, everything))
	config := filepath.Join(t.TempDir(), "tenaq.yaml")
	for _, o := range all {
		if o.Kind == "ConfigMap" {
			if err := os.WriteFile(config, []byte(o.Data["tenaq.yaml"]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, o := range all {
		if o.Kind != "StatefulSet" {
			continue
		}
		p := o.pods()[0]
		if p.env["TENAQ_CONFIG"] != "/etc/tenaq/tenaq.yaml" {
			t.Errorf("got the configuration %q", p.env["TENAQ_CONFIG"])
		}
		p.env["TENAQ_CONFIG"], p.env["TENAQ_CLUSTER_IDENTITY"] = config, identity(t)
		out, err := p.command(t.Context(), t, "--print-config").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "orders") {
			t.Errorf("got %v, want the queue orders\n%s", err, out)
		}
	}
}

// With a Secret of several keys the pod reads its file, and has no key besides. Each key may do
// what the file says.
func TestKeysOfTheChart(t *testing.T) {
	for _, o := range objects(t, render(t, "keysSecret: tenaq-keys")) {
		if o.Kind != "StatefulSet" {
			continue
		}
		spec, p := o.Spec.Template.Spec, o.pods()[0]
		file := p.env["TENAQ_CREDENTIALS"]
		if file == "" || filepath.Base(file) != "keys.json" || p.env["TENAQ_ACCESS_KEY_ID"] != "" {
			t.Fatalf("got the environment %v", p.env)
		}
		mounted := false
		for _, m := range spec.Containers[0].VolumeMounts {
			for _, v := range spec.Volumes {
				mounted = mounted || m.Path == filepath.Dir(file) && v.Name == m.Name &&
					v.Secret.SecretName == "tenaq-keys" && v.Secret.DefaultMode == 0o440
			}
		}
		if !mounted {
			t.Errorf("%s is in no volume: %+v", file, spec)
		}
		dir := t.TempDir()
		p.env["TENAQ_CREDENTIALS"] = filepath.Join(dir, "keys.json")
		if err := os.WriteFile(p.env["TENAQ_CREDENTIALS"], []byte(keysOf("TQMAIN", "TQSHOP")), 0o400); err != nil {
			t.Fatal(err)
		}
		p.env["TENAQ_LISTEN"], p.env["TENAQ_ADMIN_LISTEN"] = free(t), free(t)
		p.env["TENAQ_DATA_DIR"] = filepath.Join(dir, "data")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		p.start(ctx, t)
		passes(ctx, t, p.env["TENAQ_ADMIN_LISTEN"], "/readyz")
		p.client(ctx, t, "TQMAIN", "queue", "create", "orders")
		p.client(ctx, t, "TQSHOP", "send", "orders", "hello")
		if got := p.client(ctx, t, "TQMAIN", "receive", "orders", "--delete"); !strings.Contains(got, "hello") {
			t.Errorf("received %q, want hello", got)
		}
		return
	}
	t.Fatal("the chart has no StatefulSet")
}

// The three pods of a rendered cluster form one on loopback, and a message sent to the first is
// received from the third.
func TestClusterOfTheChart(t *testing.T) {
	var pods []pod
	for _, o := range objects(t, render(t, "nodes: 3")) {
		pods = append(pods, o.pods()...)
	}
	if len(pods) != 3 {
		t.Fatalf("got %d pods, want 3", len(pods))
	}
	dir, certificates := t.TempDir(), identity(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	addresses := map[string]string{}
	for i := range pods {
		addresses[fmt.Sprintf("tenaq-%d.tenaq-nodes:9326", i)] = free(t)
	}
	for i, p := range pods {
		advertised := p.env["TENAQ_CLUSTER_ADVERTISE"]
		p.env["TENAQ_CLUSTER_LISTEN"] = addresses[advertised]
		for name, address := range addresses {
			for _, variable := range []string{"TENAQ_CLUSTER_ADVERTISE", "TENAQ_CLUSTER_PEERS"} {
				p.env[variable] = strings.ReplaceAll(p.env[variable], name, address)
			}
		}
		p.env["TENAQ_LISTEN"], p.env["TENAQ_ADMIN_LISTEN"] = free(t), free(t)
		p.env["TENAQ_DATA_DIR"] = filepath.Join(dir, fmt.Sprint("data-", i))
		p.env["TENAQ_CLUSTER_IDENTITY"] = certificates
		p.start(ctx, t)
	}
	for _, p := range pods {
		passes(ctx, t, p.env["TENAQ_ADMIN_LISTEN"], "/readyz")
	}
	client := func(node int, args ...string) string {
		t.Helper()
		return pods[node].client(ctx, t, "TQMAIN", args...)
	}
	client(1, "queue", "create", "orders")
	client(0, "send", "orders", "hello")
	if got := client(2, "receive", "orders", "--delete"); !strings.Contains(got, "hello") {
		t.Errorf("received %q, want hello", got)
	}
}

// identity returns a directory with certificates, which are as readable as those of the volume.
func identity(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{{"new", "authority"}, {"node", "authority", "node"}} {
		cmd := exec.CommandContext(t.Context(), built.Program(t), append([]string{"cluster", "ca"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	for _, name := range []string{"ca.pem", "node.pem", "node-key.pem"} {
		if err := os.Chmod(filepath.Join(dir, "node", name), 0o440); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "node")
}

// free returns a loopback address that nothing uses, below the ports of outgoing connections.
func free(t *testing.T) string {
	t.Helper()
	for port := 30_000 + os.Getpid()%2_000; port < 32_700; port++ {
		address := fmt.Sprintf("127.0.0.1:%d", port)
		if _, taken := given.LoadOrStore(address, true); taken {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			return address
		}
	}
	t.Fatal("no free port on 127.0.0.1")
	return ""
}

var given sync.Map

// passes waits until a probe of a pod passes.
func passes(ctx context.Context, t *testing.T, address, path string) {
	t.Helper()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s%s does not pass: %v", address, path, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}
