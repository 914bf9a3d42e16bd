package engine

import (
	"strconv"

	"tenaq/internal/work/sqslimits"
)

// openBatch returns the queue of a batch if it exists and the batch is well formed. [ERR-11]
func openBatch[T any](
	e *Engine, name QueueName, action string, given bool, entries []T, id func(*T) Text,
) (*queue, *Error) {
	q, err := e.lookup(name)
	if err != nil {
		return nil, err
	}
	ids := make([]Text, len(entries))
	for i := range entries {
		ids[i] = id(&entries[i])
	}
	return q, checkBatch(action, ids, given)
}

// checkBatch refuses a malformed batch. Given says that the request had a list of entries: a
// missing list has another error than an empty one. [BATCH-2 to BATCH-7, BATCH-9]
func checkBatch(action string, ids []Text, given bool) *Error {
	entry := action + "RequestEntry"
	switch n := len(ids); {
	case !given:
		return errMissing("Entries")
	case n == 0:
		return refuse(CodeEmptyBatch, "There should be at least one "+entry+" in the request.")
	case n > sqslimits.BatchMax:
		return refuse(CodeTooManyEntries,
			"Maximum number of entries per request are 10. You have sent "+strconv.Itoa(n)+".")
	}
	for i, id := range ids {
		if !id.Set {
			return errMissingPart(action, i, "Id")
		}
	}
	for _, id := range ids {
		if len(id.Value) < 1 || len(id.Value) > 80 || !isIdentifier(id.Value) {
			return refuse(CodeInvalidEntryID,
				"A batch entry id can only contain alphanumeric characters, "+
					"hyphens and underscores. It can be at most 80 letters long.")
		}
	}
	for i, id := range ids {
		for _, earlier := range ids[:i] {
			if id.Value == earlier.Value {
				return refuse(CodeEntryIDsNotDistinct, "Id "+id.Value+" repeated.")
			}
		}
	}
	return nil
}

// errMissingPart refuses a batch entry, counted from zero, that lacks a required part.
// [BATCH-5, BATCH-15, BATCH-22]
func errMissingPart(action string, entry int, part string) *Error {
	return errMissing(action + "RequestEntry." + strconv.Itoa(entry+1) + "." + part)
}
