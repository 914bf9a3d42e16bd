// Package wire has what the APIs of AWS have in common on the wire, whichever service a request is for. SQS, CloudWatch,
// STS and /v1 share it.
//
// It leaves the actions, their members and their errors to the packages of the services.
package wire
