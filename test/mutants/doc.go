// Package mutants checks that the tests which prove the promises of tenaq notice a broken promise.
//
// A mutant is the program with one bug that was put in on purpose. Each is a file in patches:
//
//	Wrong: The log is never forced to disk: the control that the power cuts are real.
//	Breaks: DUR-1
//	Test: internal/engine ^TestCuts$
//	With: TENAQ_SEED=1 TENAQ_EFFORT=0.34
//	In: internal/kv/pebblekv
//	 func (f file) SyncData() error {
//	+	return nil
//	 	err := f.File.SyncData()
//
// The name of the file is the name of the mutant. The lines before In mean:
//
//   - Wrong is one sentence that says what the program does.
//   - Breaks lists rules of docs/semantics, or is a sentence about a promise that has no number.
//   - Test is the package and the name, as go test -run takes it, of a test that must fail.
//   - With lists variables (NAME=value) and flags for the test. It may be left out.
//   - Program is the folder of a program that the test starts by its path in TENAQ_BINARY. With it
//     the program has the bug, and without it the test binary has.
//
// In names a folder. What follows is a hunk of a diff without line numbers: its lines with a blank
// or a minus must occur in exactly one place in the folder's files, tests excepted; indentation
// does not count. A patch may have several hunks, each under an In of its own. Patches are applied
// with go build -overlay, so the sources never change. To add a mutant, add a file and rewrite the
// table of docs/proofs.md:
//
//	go test ./test/mutants -run TestPage -rewrite
//
// TestMutants builds the test of each mutant with the bug, and expects that it fails. Without the
// bug it must pass: -all and -mutant check this too. A run of four does not, because the suite
// around it runs the same tests.
//
// The file unguarded.patch is applied with and without the bug: it removes the engine's own checks,
// because the tests must notice the bug from outside. A mutant that survives is a finding about the
// test. The test is then improved; the mutant is never made worse.
//
// A run tries four mutants, chosen by TENAQ_SEED or by the day. All of them take a few minutes:
//
//	go test ./test/mutants -count=1 -v -all
//	go test ./test/mutants -count=1 -v -rotation=3
//	go test ./test/mutants -count=1 -v -mutant=no-sync
package mutants
