// Package v1 serves the features that SQS lacks, in plain HTTP and JSON: /v1, beside the SQS API,
// and the health pages of the admin address.
//
// Each resource has a file: queues.go, messages.go, find.go, fate.go, nack.go, reasons.go,
// records.go, claims.go, alarms.go, backup.go and cluster.go for /v1, health.go for the admin
// address. To add a route, write its handler into the file of its resource and enter it in
// routes.go, with a struct for its input and one for its answer. The table there reads requests,
// refuses what they must not have, and writes the OpenAPI document. The handler of /v1/cluster is
// one of its own, because it needs no broker.
//
// What the package guarantees:
//
//   - No route of /v1 is served without a Principal that may use it.
//   - Routes that read change nothing. [PEEK-7]
//   - A web page cannot make a browser change anything: routes that change something take no GET,
//     and their bodies must be JSON. [V1-5]
//   - An unknown parameter is refused, because a misspelt one would otherwise be ignored silently.
//     [V1-3]
//   - Every refusal is a problem document with the id of its request. [V1-4]
//
// It leaves the state of queues to broker, alarms to monitor, and the cluster to its node.
package v1
