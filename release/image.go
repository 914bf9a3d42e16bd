package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// rootsModule has the certificates that the Go project takes over from Mozilla.
const rootsModule = "golang.org/x/crypto/x509roots/fallback@v0.0.0-20261030153154-30a33513ff6d"

// imageUser owns the data and runs the program. It has no name.
const imageUser = 65532

const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// A descriptor names a blob of an image, as the OCI image format defines it.
type descriptor struct {
	Type        string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *imagePlatform    `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type imagePlatform struct {
	Processor string `json:"architecture"`
	System    string `json:"os"`
}

type imageIndex struct {
	Schema    int          `json:"schemaVersion"`
	Type      string       `json:"mediaType"`
	Manifests []descriptor `json:"manifests"`
}

type imageManifest struct {
	Schema      int               `json:"schemaVersion"`
	Type        string            `json:"mediaType"`
	Config      descriptor        `json:"config"`
	Layers      []descriptor      `json:"layers"`
	Annotations map[string]string `json:"annotations"`
}

type imageConfig struct {
	imagePlatform
	Created string           `json:"created"`
	Config  containerConfig  `json:"config"`
	RootFS  imageRootFS      `json:"rootfs"`
	History []map[string]any `json:"history"`
}

type imageRootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// A containerConfig is how a container of the image runs. Healthcheck is Docker's, which other
// runtimes ignore.
type containerConfig struct {
	User        string              `json:"User"`
	Ports       map[string]struct{} `json:"ExposedPorts"`
	Env         []string            `json:"Env"`
	Entrypoint  []string            `json:"Entrypoint"`
	Cmd         []string            `json:"Cmd"`
	Volumes     map[string]struct{} `json:"Volumes"`
	WorkingDir  string              `json:"WorkingDir"`
	Labels      map[string]string   `json:"Labels"`
	Healthcheck healthcheck         `json:"Healthcheck"`
}

type healthcheck struct {
	Test                           []string
	Interval, Timeout, StartPeriod time.Duration
}

// images writes one image for both processors as an OCI layout in a tar. It holds what the image of
// the Dockerfile does.
func (b *build) images() error {
	roots, err := b.roots()
	if err != nil {
		return err
	}
	base, err := tarred([]file{
		{name: "etc/"}, {name: "etc/ssl/"}, {name: "etc/ssl/certs/"},
		{name: "etc/ssl/certs/ca-certificates.crt", data: roots},
		{name: "tmp/", mode: 0o1777},
		{name: "var/"}, {name: "var/lib/"}, {name: "var/lib/tenaq/", owner: imageUser, mode: 0o700},
	}, b.at)
	if err != nil {
		return err
	}
	layout := &imageLayout{blobs: make(map[string]bool)}
	index := imageIndex{Schema: 2, Type: indexType}
	for _, p := range platforms {
		if program := b.programs[p]; program != "" && p.system == "linux" {
			d, err := b.image(layout, p, program, base)
			if err != nil {
				return err
			}
			index.Manifests = append(index.Manifests, d)
		}
	}
	inner, err := layout.addJSON(indexType, index)
	if err != nil {
		return err
	}
	inner.Annotations = map[string]string{
		"io.containerd.image.name":          "docker.io/library/tenaq:" + b.number(),
		"org.opencontainers.image.ref.name": b.number(),
	}
	outer, err := json.Marshal(imageIndex{Schema: 2, Type: indexType,
		Manifests: []descriptor{inner}})
	if err != nil {
		return err
	}
	layout.files = append(layout.files, file{name: "index.json", data: outer},
		file{name: "oci-layout", data: []byte(`{"imageLayoutVersion":"1.0.0"}`)})
	archive, err := tarred(layout.files, b.at)
	if err != nil {
		return err
	}
	return b.write(fmt.Sprintf("tenaq_%s_image.tar", b.number()), archive)
}

// image adds the image for one processor.
func (b *build) image(layout *imageLayout, p platform, program string, base []byte) (descriptor,
	error,
) {
	text, err := os.ReadFile(program)
	if err != nil {
		return descriptor{}, err
	}
	top, err := tarred([]file{{name: "tenaq", data: text, mode: 0o755}}, b.at)
	if err != nil {
		return descriptor{}, err
	}
	labels := map[string]string{
		"org.opencontainers.image.title":       "tenaq",
		"org.opencontainers.image.description": "A durable message queue that speaks the Amazon SQS protocol",
		"org.opencontainers.image.version":     b.number(),
		"org.opencontainers.image.revision":    b.commit,
		"org.opencontainers.image.created":     b.at.Format(time.RFC3339),
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}
	config := imageConfig{
		imagePlatform: imagePlatform{p.processor, p.system},
		Created:       b.at.Format(time.RFC3339),
		Config: containerConfig{
			User:  fmt.Sprintf("%d:%d", imageUser, imageUser),
			Ports: map[string]struct{}{"9324/tcp": {}, "9325/tcp": {}},
			Env: []string{"TENAQ_DATA_DIR=/var/lib/tenaq", "TENAQ_LISTEN=0.0.0.0:9324",
				"TENAQ_ADMIN_LISTEN=0.0.0.0:9325"},
			Entrypoint: []string{"/tenaq"},
			Cmd:        []string{"serve"},
			Volumes:    map[string]struct{}{"/var/lib/tenaq": {}},
			WorkingDir: "/",
			Labels:     labels,
			Healthcheck: healthcheck{Test: []string{"CMD", "/tenaq", "health"},
				Interval: 10 * time.Second, Timeout: 5 * time.Second, StartPeriod: time.Minute},
		},
		RootFS: imageRootFS{Type: "layers"},
	}
	manifest := imageManifest{Schema: 2, Type: manifestType, Annotations: labels}
	for _, layer := range [][]byte{base, top} {
		packed, err := gzipped(layer, nil)
		if err != nil {
			return descriptor{}, err
		}
		manifest.Layers = append(manifest.Layers, layout.add(layerType, packed))
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, digestOf(layer))
		config.History = append(config.History, map[string]any{"created": config.Created,
			"created_by": "make release"})
	}
	if manifest.Config, err = layout.addJSON(configType, config); err != nil {
		return descriptor{}, err
	}
	d, err := layout.addJSON(manifestType, manifest)
	d.Platform = &config.imagePlatform
	return d, err
}

// An imageLayout collects blobs.
type imageLayout struct {
	files []file
	blobs map[string]bool // by digest
}

func (l *imageLayout) add(kind string, data []byte) descriptor {
	d := descriptor{Type: kind, Digest: digestOf(data), Size: len(data)}
	if !l.blobs[d.Digest] {
		l.blobs[d.Digest] = true
		l.files = append(l.files, file{name: "blobs/sha256/" + d.Digest[len("sha256:"):],
			data: data})
	}
	return d
}

func (l *imageLayout) addJSON(kind string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	return l.add(kind, data), err
}

func digestOf(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// roots returns the certificates that the program needs to talk to Amazon.
func (b *build) roots() ([]byte, error) {
	answer, err := output(b.work, []string{"GOFLAGS="}, "go", "mod", "download", "-json",
		rootsModule)
	if err != nil {
		return nil, err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(answer), &module); err != nil {
		return nil, err
	}
	der, err := os.ReadFile(filepath.Join(module.Dir, "bundle", "bundle.der"))
	if err != nil {
		return nil, err
	}
	all, err := x509.ParseCertificates(der)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for _, c := range all {
		fmt.Fprintf(&text, "# %s\n", c.Subject)
		if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}
