package faultproxy

import "encoding/json"

// A failure is how a batch response says that one entry was not carried out.
type failure struct {
	ID          string `json:"Id"`
	Code        string
	Message     string
	SenderFault bool
}

// split takes every second entry out of a batch request, beginning with the first of two, and
// returns the failures of those it took as a JSON list. What is no batch of at least two stays as
// it is.
func split(body []byte) (rest, failed []byte) {
	var request map[string]json.RawMessage
	var entries []json.RawMessage
	if json.Unmarshal(body, &request) != nil ||
		json.Unmarshal(request["Entries"], &entries) != nil || len(entries) < 2 {
		return body, nil
	}
	var keep []json.RawMessage
	var failures []failure
	for i, entry := range entries {
		if i%2 == 1 {
			keep = append(keep, entry)
			continue
		}
		f := failure{Code: "InternalError", Message: "injected fault"}
		if json.Unmarshal(entry, &f) != nil { // takes the Id and no other member that an entry has
			return body, nil
		}
		failures = append(failures, f)
	}
	request["Entries"] = must(keep)
	return must(request), must(failures)
}

// merge adds failures to the response of what was left of a batch.
func merge(body, failed []byte) []byte {
	var response map[string]json.RawMessage
	var mine, theirs []json.RawMessage
	if json.Unmarshal(body, &response) != nil || json.Unmarshal(failed, &mine) != nil {
		return body
	}
	_ = json.Unmarshal(response["Failed"], &theirs) // absent when none has failed
	response["Failed"] = must(append(theirs, mine...))
	return must(response)
}

// must encodes what was decoded before.
func must(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}
