package sqs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tenaq/internal/api/sqs/sqswire"
)

// A sighting is an answer that a script shows: success of an action, or an error, in one of the
// protocols.
type sighting struct {
	what  string // action or code
	query bool   // the protocol
}

// elsewhere are the errors that scripts do not show in both protocols, with the reason and the test
// that knows them.
var elsewhere = map[sqswire.ErrorCode]struct{ why, test string }{
	"MissingAuthenticationToken": {"scripts have no keys", "TestSignaturesInBothProtocols"},
	"IncompleteSignature":        {"scripts have no keys", "TestSignaturesInBothProtocols"},
	"InvalidClientTokenId":       {"scripts have no keys", "TestSignaturesInBothProtocols"},
	"SignatureDoesNotMatch":      {"scripts have no keys", "TestSignaturesInBothProtocols"},
	"ExpiredToken":               {"scripts have no keys", "TestSignaturesInBothProtocols"},
	"RequestExpired":             {"scripts have no keys", "TestSignaturesInBothProtocols"},

	sqswire.InternalFailure: {"no request brings it about", "TestWireError"},
	sqswire.InternalError:   {"another node would have to take over", "TestWireError"},

	// The model has these, and this server never says them. [ERR-13]
	"InvalidIdFormat": {"deprecated", "TestCatalogue"},
	"InvalidSecurity": {"no policy asks for another kind of connection", "TestCatalogue"},
	"AWS.SimpleQueueService.MessageNotInflight": {"what SQS says is InvalidParameterValue", "TestCatalogue"},
	"ThrottlingException":                       {"what SQS says is RequestThrottled", "TestCatalogue"},
	"KMS.AccessDeniedException":                 {"keys are not resolved", "TestCatalogue"},
	"KMS.DisabledException":                     {"keys are not resolved", "TestCatalogue"},
	"KMS.InvalidKeyUsageException":              {"keys are not resolved", "TestCatalogue"},
	"KMS.InvalidStateException":                 {"keys are not resolved", "TestCatalogue"},
	"KMS.NotFoundException":                     {"keys are not resolved", "TestCatalogue"},
	"KMS.OptInRequired":                         {"keys are not resolved", "TestCatalogue"},
	"KMS.ThrottlingException":                   {"keys are not resolved", "TestCatalogue"},
}

var (
	callPattern   = regexp.MustCompile(`(?m)^(?:call|both) ([A-Za-z]+)`)
	jsonPattern   = regexp.MustCompile(`"__type":"([^"]+)"`)
	xmlPattern    = regexp.MustCompile(`<Type>(\w+)</Type><Code>([^<]+)</Code>`)
	statusPattern = regexp.MustCompile(`(?m)^(?:HTTP/1\.1 )?([1-5][0-9][0-9])(?: .*)?$`)
	codePattern   = regexp.MustCompile(`(?m)^(?:[45][0-9][0-9] |x-amzn-query-error: )([A-Za-z.]+);(Sender|Receiver)$`)
)

// sightings collects what the scripts show. An answer whose parts do not agree with the catalogue
// is none; those of the wrong status, as that of what is not found, are shown beside the right one.
func sightings(t *testing.T) map[sighting]bool {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("scripts: %v, %v", paths, err)
	}
	seen := make(map[sighting]bool)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for block := range strings.SplitSeq(string(text), "\n\n# ") {
			for part := range splitAnswers(block) {
				status, code := statusPattern.FindStringSubmatch(part), codePattern.FindStringSubmatch(part)
				if status == nil || code == nil {
					continue
				}
				info := (&sqswire.Error{Code: sqswire.ErrorCode(code[1])}).Info()
				if status[1] != fmt.Sprint(info.Status) || code[2] != string(info.Fault) {
					continue
				}
				if m := jsonPattern.FindStringSubmatch(part); m != nil && m[1] == info.Type {
					seen[sighting{code[1], false}] = true
				}
				if m := xmlPattern.FindStringSubmatch(part); m != nil && m[1] == code[2] && m[2] == code[1] {
					seen[sighting{code[1], true}] = true
				}
			}
		}
		successes(string(text), seen)
	}
	return seen
}

// splitAnswers cuts a text in front of every status line.
func splitAnswers(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		at := statusPattern.FindAllStringIndex(text, -1)
		for i, from := range at {
			to := len(text)
			if i+1 < len(at) {
				to = at[i+1][0]
			}
			if !yield(text[from[0]:to]) {
				return
			}
		}
	}
}

// successes notes the actions that a command of a script shows to succeed.
func successes(text string, seen map[sighting]bool) {
	commands := callPattern.FindAllStringSubmatchIndex(text, -1)
	for i, m := range commands {
		to := len(text)
		if i+1 < len(commands) {
			to = commands[i+1][0]
		}
		action, block := text[m[2]:m[3]], text[m[0]:to]
		if strings.Contains(block, "----\n200\n{") {
			seen[sighting{action, false}] = true
		}
		if strings.Contains(block, "\n200\n<?xml") && strings.Contains(block, "\n<"+action+"Response ") {
			seen[sighting{action, true}] = true
		}
	}
}

// Every action and every error of the API is in a script in both protocols, with its request, its
// status, its headers, which checkHeaders holds to the same rules everywhere, and its body. The
// exceptions are listed with the test that covers each. [ERR-5, ERR-6]
func TestScriptsShowTheAPI(t *testing.T) {
	seen := sightings(t)
	for _, op := range sortedOperations() {
		for _, query := range []bool{false, true} {
			if !seen[sighting{op.Name, query}] {
				t.Errorf("%s: no script shows it to succeed (Query protocol: %v)", op.Name, query)
			}
		}
	}
	for _, code := range sqswire.ErrorCodes() {
		shown := seen[sighting{string(code), false}] && seen[sighting{string(code), true}]
		other, listed := elsewhere[code]
		switch {
		case !shown && !listed:
			t.Errorf("%s: no script shows it in JSON (%v) and in XML (%v)", code, seen[sighting{string(code), false}], seen[sighting{string(code), true}])
		case shown && listed:
			t.Errorf("%s: scripts show it, so it needs no entry that says %q", code, other.why)
		}
	}
	tests := testsByName(t, ".", "sqswire")
	for _, code := range slices.Sorted(maps.Keys(elsewhere)) {
		name := elsewhere[code].test
		if text, ok := tests[name]; ok && strings.Contains(text, string(code)) {
			continue
		}
		if text, err := os.ReadFile(filepath.Join("../../..", name)); err != nil || !strings.Contains(string(text), string(code)) {
			t.Errorf("%s is not in %s, which should know it", code, name)
		}
	}
}

// testsByName returns the text of the file of every test in some folders.
func testsByName(t *testing.T, folders ...string) map[string]string {
	t.Helper()
	name := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	tests := make(map[string]string)
	for _, folder := range folders {
		paths, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("tests in %s: %v, %v", folder, paths, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range name.FindAllStringSubmatch(string(text), -1) {
				tests[m[1]] = string(text)
			}
		}
	}
	return tests
}

// contract undoes expand where it is worth it.
func contract(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		n := 1
		for i+n < len(s) && s[i+n] == s[i] {
			n++
		}
		if n >= 100 {
			fmt.Fprintf(&b, "<%c*%d>", s[i], n)
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}
