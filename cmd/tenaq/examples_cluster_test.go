package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"tenaq/internal/settings"
)

// The variables of the examples are settings of a node that fit together. Every node has the same
// peers, its own address among them.
func TestExamplesOfClusters(t *testing.T) {
	for name, nodes := range map[string][]map[string]string{
		"compose.yaml": composeNodes(t), "statefulset.yaml": statefulNodes(t),
	} {
		if len(nodes) != 3 {
			t.Errorf("%s: got %d nodes, want 3", name, len(nodes))
		}
		peers := map[string]bool{}
		for i, env := range nodes {
			t.Run(fmt.Sprint(name, " ", i+1), func(t *testing.T) {
				for variable, value := range env {
					t.Setenv(variable, value)
				}
				f := &settings.SettingFlags{}
				f.Register(pflag.NewFlagSet("test", pflag.ContinueOnError))
				c, err := f.Load()
				if err != nil {
					t.Fatal(err)
				}
				if len(c.ClusterPeers) != 3 || c.ClusterIdentity == "" || !strings.Contains(strings.Join(c.ClusterPeers, ","), c.ClusterAdvertise) {
					t.Errorf("got the peers %v of %s with the identity %q", c.ClusterPeers, c.ClusterAdvertise, c.ClusterIdentity)
				}
				peers[strings.Join(c.ClusterPeers, ",")+" "+c.ClusterAdvertise] = true
				peers[strings.Join(c.ClusterPeers, ",")] = true
			})
		}
		if len(peers) != 4 {
			t.Errorf("%s: got %v, want three addresses and one list", name, peers)
		}
	}
}

func readExample(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("../../examples/cluster/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// composeNodes returns the environment of each service.
func composeNodes(t *testing.T) (nodes []map[string]string) {
	var file struct {
		Services map[string]struct {
			Environment map[string]string
			Volumes     []string
		}
	}
	if err := yaml.Unmarshal(readExample(t, "compose.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	for name, s := range file.Services { // order does not matter: each node is checked alike
		if len(s.Volumes) != 2 || !strings.HasPrefix(s.Volumes[0], name+":") {
			t.Errorf("%s: got the volumes %v, want its own", name, s.Volumes)
		}
		nodes = append(nodes, s.Environment)
	}
	return nodes
}

// statefulNodes returns the environment of each pod.
func statefulNodes(t *testing.T) (nodes []map[string]string) {
	for d := yaml.NewDecoder(bytes.NewReader(readExample(t, "statefulset.yaml"))); ; {
		var object struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct {
				Replicas int
				Template struct {
					Spec struct {
						Containers []struct {
							Env []struct{ Name, Value string }
						}
					}
				}
			}
		}
		err := d.Decode(&object)
		if errors.Is(err, io.EOF) {
			return nodes
		}
		if err != nil {
			t.Fatal(err)
		}
		if object.Kind != "StatefulSet" {
			continue
		}
		for i := range object.Spec.Replicas {
			env := map[string]string{}
			for _, v := range object.Spec.Template.Spec.Containers[0].Env {
				if strings.HasPrefix(v.Name, "TENAQ_") {
					env[v.Name] = strings.ReplaceAll(v.Value, "$(POD)", fmt.Sprint(object.Metadata.Name, "-", i))
				}
			}
			nodes = append(nodes, env)
		}
	}
}
