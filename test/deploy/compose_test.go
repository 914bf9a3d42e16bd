package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Compose knows every field, and tenaq accepts the variables of every service. The nodes of a
// cluster have the same peers, their own address among them, and a volume and a port of their own.
func TestCompose(t *testing.T) {
	for name, nodes := range map[string]int{"single.yaml": 1, "cluster.yaml": 3} {
		t.Run(name, func(t *testing.T) {
			text, err := compose(t, "../../deploy/compose/"+name)
			if err != nil {
				t.Fatal(err)
			}
			var file struct {
				Services map[string]struct {
					Environment map[string]string
					Volumes     []struct{ Type, Source, Target string }
					Ports       []struct{ Published string }
				}
			}
			if err := yaml.Unmarshal([]byte(text), &file); err != nil {
				t.Fatal(err)
			}
			lists, own := map[string]bool{}, map[string]bool{}
			for service, s := range file.Services {
				accepted(t, pod{args: []string{"serve"}, env: s.Environment})
				peers, address := s.Environment["TENAQ_CLUSTER_PEERS"], s.Environment["TENAQ_CLUSTER_ADVERTISE"]
				if !strings.Contains(peers, address) {
					t.Errorf("%s: %q is not among its peers %q", service, address, peers)
				}
				lists[peers], own[address] = true, true
				for _, v := range s.Volumes {
					if v.Target == "/var/lib/tenaq" && v.Type == "volume" {
						own["volume "+v.Source] = true
					}
				}
				for _, p := range s.Ports {
					own["port "+p.Published] = true
				}
			}
			if len(file.Services) != nodes || len(lists) != 1 || len(own) != 4*nodes {
				t.Errorf("got %d nodes, the lists %v, and %v of their own", len(file.Services), lists, own)
			}
		})
	}
}

func TestComposeRefuses(t *testing.T) {
	text, err := os.ReadFile("../../deploy/compose/single.yaml")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "compose.yaml")
	wrong := strings.Replace(string(text), "restart:", "restarts:", 1)
	if err := os.WriteFile(name, []byte(wrong), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := compose(t, name); err == nil || !strings.Contains(err.Error(), "restarts") {
		t.Errorf("got %v, want the unknown field", err)
	}
}

// compose returns a file with all references resolved.
func compose(t *testing.T, file string) (string, error) {
	t.Helper()
	t.Setenv("TENAQ_ACCESS_KEY_ID", "TQMAIN")
	t.Setenv("TENAQ_SECRET_ACCESS_KEY", secretOf("TQMAIN"))
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	return tool(t, "", "run", "./compose", path)
}
