// Package archtest holds the rules about this repository that a compiler cannot check, as tests:
// who may import whom, what the deterministic core may use, that every rule in docs/semantics has a
// test and every citation a rule, and what a file must not contain.
//
// bounds_test.go bounds the number of folders, the lines below each, and the width of lines.
//
// Each rule is a function from a tree of files to a list of problems. It runs twice: over the
// repository, where it must find nothing, and over a small fixture with one mistake of each kind,
// where it must find them all, because a rule that cannot fail guards nothing.
//
// A rule that stands in the way is changed here, in the open and with its reason. There are no
// comments that switch one off.
package archtest
