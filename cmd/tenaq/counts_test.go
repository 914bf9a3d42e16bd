package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// countOfMany finds a number that is followed by a noun in the plural, whatever the number is.
var countOfMany = regexp.MustCompile(`%d (more |sent )?(messages|rows|records|changes|differences|findings|lines|kills|requests|times|checks|queues (are|have))\b`)

// Numbers of things are written by counted, which knows of "1 message".
func TestCountsAgree(t *testing.T) {
	var files []string
	for _, dir := range []string{".", "../../internal/cli", "../../internal/redrivehost", "../../internal/settings"} {
		err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
				files = append(files, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(files) < 100 {
		t.Fatalf("%d files", len(files))
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(file, "bench/budget") { // the budget has fixed, large numbers
			continue
		}
		for i, line := range strings.Split(string(b), "\n") {
			if found := countOfMany.FindString(line); found != "" && !strings.Contains(line, "begin with") {
				t.Errorf("%s:%d: %q: use counted", file, i+1, found)
			}
		}
	}
}
