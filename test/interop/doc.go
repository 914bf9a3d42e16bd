// Package interop runs other people's clients of SQS, unmodified and in the versions that the table
// of docs/clients.md names, against a whole server that verifies their signatures.
//
// The tests check how a client understands an answer: the type of the error that it raises, the
// checksum that it compares, the page that it asks for next. So each client is a program in its own
// language that runs the same operations and judges the results itself. TestClients gives it an
// endpoint and keys in its environment and reads on its standard output one JSON object per line,
// first its version and then each operation:
//
//	{"version": "1.2.3"}
//	{"operation": "create", "ok": true}
//	{"operation": "fifo", "ok": false, "detail": "order: got b a, want a b"}
//
// The operations are those of the variable operations. An operation that a client cannot do is
// declared with the reason; every other operation must run and succeed. The table in
// docs/clients.md is written from such runs, by go test ./test/interop -rewrite, and without
// -rewrite a run that differs from its row fails. The protocol in it is the one that was seen on
// the wire.
//
// Clients get the address twice: as TENAQ_ENDPOINT, which their programs hand to them in code, and
// as AWS_ENDPOINT_URL_SQS, which the operation environment leaves them to find by themselves.
//
// To add a client:
//
//  1. Pin it and all that it needs in a list below testdata, and name the list in the script
//     install: venv for Python, npm for JavaScript, maven for Java. Then make emulators installs
//     it, and so does CI.
//  2. Write its program, beside the one of a client that is like it. It finds in its environment
//     TENAQ_ENDPOINT, the keys of AWS and its region, TENAQ_PREFIX for the names of its queues, and
//     TENAQ_WRONG_KEY_ID with TENAQ_WRONG_SECRET, which do not match. It ends within a minute on an
//     idle machine, and takes its version from the client and not from the list.
//  3. Add it to the clients of its language, as pythonClients has them, and run
//     go test ./test/interop -run 'TestClients/its-name' -rewrite -v.
//
// It leaves to test/sdk what needs only one client: every error, limit and attribute of the server.
package interop
