// Command kubernetes reads YAML documents from standard input and reports every one that
// Kubernetes, or the operator of Prometheus, would refuse for an unknown field or a wrong type.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	documents "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

var kinds = map[meta.TypeMeta]func() any{
	{APIVersion: "v1", Kind: "ConfigMap"}:                            func() any { return new(core.ConfigMap) },
	{APIVersion: "v1", Kind: "Service"}:                              func() any { return new(core.Service) },
	{APIVersion: "apps/v1", Kind: "StatefulSet"}:                     func() any { return new(apps.StatefulSet) },
	{APIVersion: "batch/v1", Kind: "CronJob"}:                        func() any { return new(batch.CronJob) },
	{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}:           func() any { return new(policy.PodDisruptionBudget) },
	{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"}:      func() any { return new(networking.NetworkPolicy) },
	{APIVersion: "monitoring.coreos.com/v1", Kind: "ServiceMonitor"}: func() any { return new(monitoring.ServiceMonitor) },
}

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err == nil {
		err = check(text)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func check(text []byte) (all error) {
	found := 0
	for d := documents.NewDocumentDecoder(io.NopCloser(bytes.NewReader(text))); ; {
		document := make([]byte, len(text)+1)
		n, err := d.Read(document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		document = document[:n]
		var head struct {
			meta.TypeMeta `json:",inline"`
			Metadata      meta.ObjectMeta
		}
		if err := yaml.Unmarshal(document, &head); err != nil {
			return errors.Join(all, err)
		}
		object, known := kinds[head.TypeMeta]
		if !known {
			all = errors.Join(all, fmt.Errorf("%s %s: no type of this name is known here", head.APIVersion, head.Kind))
			continue
		}
		found++
		if err := strict(document, object()); err != nil {
			all = errors.Join(all, fmt.Errorf("%s %s: %w", head.Kind, head.Metadata.Name, err))
		}
	}
	if found == 0 {
		all = errors.Join(all, errors.New("standard input has no object"))
	}
	return all
}

// strict reads an object as the API server does with fieldValidation=Strict: an unknown field, a
// name in the wrong case and a field that is there twice are errors.
func strict(document []byte, object any) error {
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return err
	}
	wrong, err := json.UnmarshalStrict(text, object)
	return errors.Join(append(wrong, err)...)
}
