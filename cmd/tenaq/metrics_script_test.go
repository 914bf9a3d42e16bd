package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// scrapeMax is how long that is awaited which has to come. A redriver with nothing to do takes a
// step a minute.
const scrapeMax = 4 * time.Minute

// scrape asks for the metrics of a program until they match all of some patterns, and prints them:
// scrape LOG PATTERN..., with the file that has the log of the program, or its URL.
func scrape(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: scrape LOG|URL PATTERN...")
	}
	var missing, body string
	for end := time.Now().Add(scrapeMax); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var err error
		if body, err = metricsOf(ts, args[0]); err != nil {
			missing = err.Error()
			continue
		}
		missing = ""
		for _, pattern := range args[1:] {
			if !regexp.MustCompile(`(?m)` + pattern).MatchString(body) {
				missing = pattern
			}
		}
		if missing == "" {
			fmt.Fprint(ts.Stdout(), body)
			return
		}
	}
	ts.Fatalf("not within %v: %s\n%s", scrapeMax, missing, body)
}

// metricsOf asks once.
func metricsOf(ts *testscript.TestScript, where string) (string, error) {
	url := where + "/metrics"
	if !strings.HasPrefix(where, "http://") {
		log, err := os.ReadFile(ts.MkAbs(where))
		if err != nil {
			return "", err
		}
		found := regexp.MustCompile(`msg="serving metrics" .*url=(http://\S+)`).FindSubmatch(log)
		if found == nil {
			return "", fmt.Errorf("no address in %s", log)
		}
		url = string(found[1])
	}
	res, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, body)
	}
	return string(body), err
}
