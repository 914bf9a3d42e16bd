package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// A bill lists what is linked into a program, as SPDX 2.3.
type bill struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      billCreation   `json:"creationInfo"`
	Packages      []billPackage  `json:"packages"`
	Relationships []billRelation `json:"relationships"`
}

type billCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type billPackage struct {
	Name      string         `json:"name"`
	ID        string         `json:"SPDXID"`
	Version   string         `json:"versionInfo"`
	From      string         `json:"downloadLocation"`
	Analyzed  bool           `json:"filesAnalyzed"`
	License   string         `json:"licenseDeclared"`
	Concluded string         `json:"licenseConcluded"`
	Copyright string         `json:"copyrightText"`
	Sums      []billChecksum `json:"checksums,omitempty"`
	Refs      []billRef      `json:"externalRefs,omitempty"`
	Purpose   string         `json:"primaryPackagePurpose"`
}

type billChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type billRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type billRelation struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const unknown = "NOASSERTION"

// lists writes a list for each platform, from what Go has recorded in the program.
func (b *build) lists() error {
	for p, program := range b.programs {
		list, err := b.list(p, program)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("tenaq_%s_%s.spdx.json", b.number(), p)
		if err := b.write(name, append(list, '\n')); err != nil {
			return err
		}
	}
	return nil
}

func (b *build) list(p platform, program string) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	sum := fmt.Sprintf("%x", sha256.Sum256(text))
	doc := bill{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT",
		Name:      fmt.Sprintf("tenaq %s for %s", b.version, p),
		Namespace: "https://spdx.org/spdxdocs/tenaq-" + b.number() + "-" + sum,
		Creation: billCreation{Created: b.at.Format(time.RFC3339),
			Creators: []string{"Tool: tenaq-release-" + b.number()}},
	}
	const root = "SPDXRef-tenaq"
	doc.Relationships = []billRelation{{doc.ID, "DESCRIBES", root}}
	doc.Packages = []billPackage{{Name: "tenaq", ID: root, Version: b.version, From: unknown,
		License: "Apache-2.0", Concluded: "Apache-2.0", Copyright: unknown, Purpose: "APPLICATION",
		Sums: []billChecksum{{"SHA256", sum}}}}
	add := func(name, version, locator string) {
		id := "SPDXRef-" + notID.ReplaceAllString(name, "-")
		doc.Packages = append(doc.Packages, billPackage{Name: name, ID: id, Version: version,
			From: unknown, License: unknown, Concluded: unknown, Copyright: unknown,
			Purpose: "LIBRARY", Refs: []billRef{{"PACKAGE-MANAGER", "purl", locator}}})
		doc.Relationships = append(doc.Relationships, billRelation{root, "CONTAINS", id})
	}
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	add("stdlib", goVersion, "pkg:golang/stdlib@"+goVersion)
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		add(m.Path, m.Version, "pkg:golang/"+m.Path+"@"+m.Version)
	}
	return json.MarshalIndent(doc, "", "  ")
}

// notID is what the name of an SPDX element may not have.
var notID = regexp.MustCompile(`[^A-Za-z0-9.-]`)

// licenses returns the licenses of Go and of all modules that are linked into a program: most of
// them ask to go with it.
func (b *build) licenses() ([]byte, error) {
	linked := make(map[string]bool)
	for _, program := range b.programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, err
		}
		for _, m := range info.Deps {
			linked[m.Path] = true
		}
	}
	root, err := output(b.root, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	all, err := output(b.root, nil, "go", "list", "-m", "-f", "{{.Path}}\t{{.Version}}\t{{.Dir}}",
		"all")
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	for _, line := range append([]string{"Go\t\t" + root}, strings.Split(all, "\n")...) {
		fields := strings.Split(line, "\t")
		if fields[0] != "Go" && !linked[fields[0]] {
			continue
		}
		found, err := licensesIn(fields[2])
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("module %s has no license in %s", fields[0], fields[2])
		}
		for _, name := range found {
			license, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&text, "== %s %s: %s\n\n%s\n\n", fields[0], fields[1], filepath.Base(name),
				bytes.TrimSpace(license))
		}
	}
	return text.Bytes(), nil
}

func licensesIn(dir string) (found []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if name := strings.ToUpper(e.Name()); !e.IsDir() && (strings.HasPrefix(name, "LICEN") ||
			strings.HasPrefix(name, "COPYING") || strings.HasPrefix(name, "NOTICE")) {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found, err
}
