package engine

import "strconv"

// batchMax is how many entries one batch may have. [BATCH-1]
const batchMax = 10

// checkBatch refuses a batch whose form is wrong. Given says that the request had a list of entries: to
// have none is another mistake than to have an empty one. [BATCH-2 to BATCH-7, BATCH-9]
func checkBatch(action string, ids []Text, given bool) *Error {
	entry := action + "RequestEntry"
	switch n := len(ids); {
	case !given:
		return errMissing("Entries")
	case n == 0:
		return refuse(CodeEmptyBatch, "There should be at least one "+entry+" in the request.")
	case n > batchMax:
		return refuse(CodeTooManyEntries, "Maximum number of entries per request are 10. You have sent "+strconv.Itoa(n)+".")
	}
	for i, id := range ids {
		if !id.Set {
			return errMissing(entry + "." + strconv.Itoa(i+1) + ".Id")
		}
	}
	for _, id := range ids {
		if len(id.Value) < 1 || len(id.Value) > 80 || !isIdentifier(id.Value) {
			return refuse(CodeInvalidEntryID, "A batch entry id can only contain alphanumeric characters, "+
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
