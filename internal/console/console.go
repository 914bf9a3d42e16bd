// Package console serves the pages of the console: a fixed HTML shell, its scripts and its style.
//
// What it guarantees:
//
//   - The files hold no data. Everything that the page shows comes from /v1. [CONSOLE-2]
//   - Each answer has the headers that keep foreign scripts, frames and requests out. [CONSOLE-4]
//   - A file whose name has a hash never changes and may be cached forever; the shell is asked for
//     again each time.
//   - Only GET and HEAD are answered. [CONSOLE-3]
//
// The files in assets are the output of "go generate": package build makes them from web, and its
// test compares them. The package leaves access control to the server. [CONSOLE-5]
package console

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:generate go run ./build

// Path is where the console is on its address.
const Path = "/console/"

//go:embed assets
var assets embed.FS

// policy allows the files of this package and requests to the same origin, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// headers are those of every answer. [CONSOLE-4]
var headers = [][2]string{
	{"Content-Security-Policy", policy},
	{"X-Frame-Options", "DENY"},
	{"Referrer-Policy", "no-referrer"},
	{"X-Content-Type-Options", "nosniff"},
	{"Cross-Origin-Opener-Policy", "same-origin"},
	{"Cross-Origin-Resource-Policy", "same-origin"},
	{"Permissions-Policy", "clipboard-write=(self), geolocation=(), camera=(), microphone=()"},
}

// Is reports whether a request is for the console.
func Is(r *http.Request) bool {
	return r.URL.Path == strings.TrimSuffix(Path, "/") || strings.HasPrefix(r.URL.Path, Path)
}

// IsPage reports whether a request is for the page itself, to which links lead.
func IsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) &&
		strings.TrimSuffix(r.URL.Path, "/") == strings.TrimSuffix(Path, "/")
}

// Serve answers a request for which Is reports true.
func Serve(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for _, pair := range headers {
		h.Set(pair[0], pair[1])
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "The console takes only GET and HEAD.", http.StatusMethodNotAllowed)
		return
	}
	name, found := strings.CutPrefix(r.URL.Path, Path)
	if !found {
		h.Set("Location", strings.TrimPrefix(Path, "/")) // relative [CONSOLE-3]
		w.WriteHeader(http.StatusPermanentRedirect)
		return
	}
	h.Set("Cache-Control", "max-age=31536000, immutable")
	if name == "" {
		name = "index.html"
		h.Set("Cache-Control", "no-cache")
	}
	packed, err := assets.ReadFile("assets/" + name + ".gz")
	if err != nil || strings.Contains(name, "/") {
		h.Set("Cache-Control", "no-store")
		http.Error(w, "The console has no such page. It begins at "+Path+".", http.StatusNotFound)
		return
	}
	h.Set("Content-Type", mimeOf(name))
	h.Set("Vary", "Accept-Encoding")
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
	} else if packed, err = unpack(packed); err != nil {
		http.Error(w, "The console is damaged: install tenaq again.",
			http.StatusInternalServerError)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(packed)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(packed)
	}
}

// mimeOf does not depend on the tables of the machine.
func mimeOf(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "text/plain; charset=utf-8"
}

// acceptsGzip reports whether a client takes gzip; q=0 refuses it.
func acceptsGzip(r *http.Request) bool {
	for _, part := range strings.Split(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, params, err := mime.ParseMediaType("x/" + strings.TrimSpace(part))
		if err != nil || name != "x/gzip" && name != "x/*" {
			continue
		}
		q, err := strconv.ParseFloat(params["q"], 64)
		return err != nil || q > 0
	}
	return false
}

func unpack(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
