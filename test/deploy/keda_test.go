package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// keda is the version whose definitions and scaler the example is checked against. Its sources are
// read and not compiled.
const keda = "github.com/kedacore/keda/v2@v2.21.0"

// KEDA's own definitions know every field of the example, and its scaler of SQS every setting.
func TestKEDA(t *testing.T) {
	text, err := os.ReadFile("../../deploy/keda/thumbnails.yaml")
	if err != nil {
		t.Fatal(err)
	}
	sources := kedaSources(t)
	if problems := checkKEDA(t, sources, text); len(problems) > 0 {
		t.Error(strings.Join(problems, "\n"))
	}
	for right, wrong := range map[string]string{
		"pollingInterval: 15": "poolingInterval: 15", "minReplicaCount: 0": `minReplicaCount: "0"`,
		"scaleTargetRef: {name: thumbnails}": "paused: true", "awsEndpoint:": "endpoint:",
	} {
		bad := bytes.Replace(text, []byte(right), []byte(wrong), 1)
		if len(checkKEDA(t, sources, bad)) == 0 {
			t.Errorf("%q passes", wrong)
		}
	}
}

// kedaSources returns the folder with the sources of KEDA.
func kedaSources(t *testing.T) string {
	t.Helper()
	out, err := tool(t, "", "mod", "download", "-json", keda)
	var module struct{ Dir string }
	if err = errors.Join(err, json.Unmarshal([]byte(out), &module)); err != nil {
		t.Fatal(err)
	}
	return module.Dir
}

var setting = regexp.MustCompile(`keda:"name=(\w+), order=triggerMetadata`)

// checkKEDA returns what KEDA would not know, or lacks, in the objects of a file.
func checkKEDA(t *testing.T, sources string, text []byte) (problems []string) {
	t.Helper()
	scaler := read(t, filepath.Join(sources, "pkg", "scalers", "aws_sqs_queue_scaler.go"))
	settings := make(map[string]bool)
	for _, m := range setting.FindAllStringSubmatch(string(scaler), -1) {
		settings[m[1]] = true
	}
	for in := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var object map[string]any
		if err := in.Decode(&object); err == io.EOF {
			return problems
		} else if err != nil {
			t.Fatal(err)
		}
		kind := fmt.Sprint(object["kind"])
		var definition struct {
			Spec struct {
				Versions []struct {
					Schema struct {
						Schema map[string]any `yaml:"openAPIV3Schema"`
					}
				}
			}
		}
		name := "keda.sh_" + strings.ToLower(kind) + "s.yaml"
		err := yaml.Unmarshal(read(t, filepath.Join(sources, "config", "crd", "bases", name)), &definition)
		if err != nil {
			t.Fatal(err)
		}
		problems = append(problems, matches(kind, object, definition.Spec.Versions[0].Schema.Schema)...)
		if spec, ok := object["spec"].(map[string]any); ok && kind == "ScaledObject" {
			for _, trigger := range spec["triggers"].([]any) {
				for name := range trigger.(map[string]any)["metadata"].(map[string]any) {
					if !settings[name] {
						problems = append(problems, "the scaler has no setting "+name)
					}
				}
			}
		}
	}
}

// matches returns where a value differs from a schema of OpenAPI: in its type, or by fields that
// are unknown or missing.
func matches(at string, value any, schema map[string]any) (problems []string) {
	kind, _ := schema["type"].(string)
	right := true
	switch v := value.(type) {
	case map[string]any:
		right = kind == "object"
		properties, _ := schema["properties"].(map[string]any)
		more, _ := schema["additionalProperties"].(map[string]any)
		for name, field := range v {
			known, ok := properties[name].(map[string]any)
			switch {
			case ok:
			case more != nil:
				known = more
			case properties != nil:
				problems = append(problems, at+"."+name+" is unknown")
				continue
			default: // the schema says nothing about it, such as metadata
				continue
			}
			problems = append(problems, matches(at+"."+name, field, known)...)
		}
		required, _ := schema["required"].([]any)
		for _, name := range required {
			if _, ok := v[fmt.Sprint(name)]; !ok {
				problems = append(problems, fmt.Sprintf("%s.%v is missing", at, name))
			}
		}
	case []any:
		right = kind == "array"
		items, _ := schema["items"].(map[string]any)
		for i, item := range v {
			problems = append(problems, matches(fmt.Sprintf("%s[%d]", at, i), item, items)...)
		}
	case string:
		right = kind == "string"
	case int:
		right = kind == "integer"
	case bool:
		right = kind == "boolean"
	}
	if !right {
		problems = append(problems, fmt.Sprintf("%s is %v, want a value of the type %s", at, value, kind))
	}
	return problems
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
