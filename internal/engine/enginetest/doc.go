// Package enginetest plays scripts against the engine, and against a model of it.
//
// A script is a list of steps that read as prose:
//
//	send q=orders body=hello
//	receive q=orders vt=30
//	advance 30s
//	delete q=orders r=r1
//
// A Player turns each step into an operation, stamps it with a time and a seed of its own, and
// records the answer as text. Message ids and receipt handles appear under aliases, m1, m2 and r1,
// r2, in the order in which the script meets them, so a transcript depends on what the queue does
// and on nothing else.
//
// A Player plays against a Machine: the engine, opened as a Variant says, or the Model. A Variant
// may change how many commands share a turn, how large the windows are, which store lies below, and
// whether the engine is restarted before every command, or the whole server is stopped now and
// then, sometimes by a power cut. None of that may change a transcript, and the tests that use this
// package compare them: Compare with those of the model, Alike with each other.
//
// A Story is a script in which power fails at any moment, with what must be found afterwards.
//
// The package leaves out what lies above the engine: sealing of handles, checksums, protocol texts,
// and long polls that wait.
package enginetest
