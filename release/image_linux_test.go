package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// The image is what its digests say, for each processor, and holds what the Dockerfile's does.
func TestImage(t *testing.T) {
	b := results(t)
	_, blobs := untar(t, bytes.NewReader(read(t, b.result(t, "*_image.tar"))))
	blob := func(d descriptor) []byte {
		t.Helper()
		data := blobs["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
		if digestOf(data) != d.Digest || len(data) != d.Size {
			t.Fatalf("blob %s of %d bytes has %s and %d", d.Digest, d.Size, digestOf(data), len(data))
		}
		return data
	}
	var outer, inner imageIndex
	parse(t, blobs["index.json"], &outer)
	parse(t, blob(outer.Manifests[0]), &inner)
	if len(inner.Manifests) != 1 || *inner.Manifests[0].Platform != (imagePlatform{runtime.GOARCH, "linux"}) {
		t.Fatalf("manifests: %+v, want one for linux/%s", inner.Manifests, runtime.GOARCH)
	}
	var manifest imageManifest
	parse(t, blob(inner.Manifests[0]), &manifest)
	var config imageConfig
	parse(t, blob(manifest.Config), &config)
	root := t.TempDir()
	for i, d := range manifest.Layers {
		layer := ungzip(t, blob(d))
		if digestOf(layer) != config.RootFS.DiffIDs[i] {
			t.Errorf("layer %d is %s, want %s", i, digestOf(layer), config.RootFS.DiffIDs[i])
		}
		unpackLayer(t, root, layer)
	}
	for _, want := range dockerfile(t) {
		if !slices.Contains(append(config.Config.Env, "USER "+config.Config.User,
			"HEALTHCHECK "+strings.Join(config.Config.Healthcheck.Test[1:], " "),
			"ENTRYPOINT "+strings.Join(config.Config.Entrypoint, " "),
			"CMD "+strings.Join(config.Config.Cmd, " ")), want) {
			t.Errorf("the image lacks %q, which the Dockerfile has", want)
		}
	}
	runImage(t, root, config.Config)
}

// unpackLayer unpacks a layer, with owners where this test may set them.
func unpackLayer(t *testing.T, root string, layer []byte) {
	t.Helper()
	headers, contents := untar(t, bytes.NewReader(layer))
	names := make([]string, 0, len(headers))
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		h, at := headers[name], filepath.Join(root, name)
		var err error
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(at, 0o755)
		} else {
			err = os.WriteFile(at, contents[name], 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 {
			if err := os.Chown(at, h.Uid, h.Gid); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(at, h.FileInfo().Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

// dockerfile returns what the Dockerfile sets, one thing a line.
func dockerfile(t *testing.T) (want []string) {
	t.Helper()
	text := strings.ReplaceAll(string(read(t, "../Dockerfile")), "\\\n", " ")
	_, last, _ := strings.Cut(text, "FROM scratch")
	plain := strings.NewReplacer(`["`, "", `", "`, " ", `"]`, "")
	for line := range strings.SplitSeq(last, "\n") {
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "ENV":
			want = append(want, strings.Fields(rest)...)
		case "HEALTHCHECK":
			_, command, _ := strings.Cut(rest, "CMD ")
			want = append(want, "HEALTHCHECK "+plain.Replace(command))
		case "USER", "ENTRYPOINT", "CMD":
			want = append(want, verb+" "+plain.Replace(rest))
		}
	}
	if len(want) < 7 {
		t.Fatalf("read %q from the Dockerfile, want more", want)
	}
	return want
}

// runImage starts the image's command in its files, as its user, and asks for its health as Docker
// does.
func runImage(t *testing.T, root string, config containerConfig) {
	t.Helper()
	needs(t, os.Geteuid() == 0, "root, to change the root")
	open(t, root)
	inside := func(extra []string, args ...string) *exec.Cmd {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Env = config.WorkingDir, append(config.Env, extra...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root,
			Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser}}
		return cmd
	}
	command := append(config.Entrypoint, config.Cmd...)
	out, err := inside(nil, command...).CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("--allow-unauthenticated")) {
		t.Errorf("open to all and without keys, the image starts: %v\n%s", err, out)
	}
	addresses := []string{"TENAQ_LISTEN=127.0.0.1:0", "TENAQ_ADMIN_LISTEN=127.0.0.1:0"}
	server := inside(addresses, command...)
	stdout, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	server.Stderr = &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		if err := server.Wait(); err != nil {
			t.Errorf("the server ended with %v\n%s", err, log.String())
		}
	}()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	admin := regexp.MustCompile(`admin on http://(\S+),`).FindStringSubmatch(line)
	if admin == nil {
		t.Fatalf("the server says %q, %v\n%s", line, err, log.String())
	}
	check := config.Healthcheck.Test[1:]
	if out, err := inside([]string{"TENAQ_ADMIN_LISTEN=" + admin[1]}, check...).CombinedOutput(); err != nil {
		t.Errorf("health: %v\n%s", err, out)
	}
	if info, err := os.Stat(filepath.Join(root, "tmp")); err != nil || info.Mode()&os.ModeSticky == 0 {
		t.Errorf("/tmp: %v, %v, want one for everyone", info, err)
	}
}
