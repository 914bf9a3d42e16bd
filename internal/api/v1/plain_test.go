package v1

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// The reader that avoids encoding/json agrees with it, and leaves all other input to it.
func TestWritesArePlain(t *testing.T) {
	one := `{"key":"claim/1","if":1764225600000001,"value":"eyJ2IjoxfQ==","ttlMs":60000,"message":{"queue":"q","receiptHandle":"a+/="}}`
	for text, plain := range map[string]bool{
		`{"writes":[` + one + `]}`:                                        true,
		`{"writes":[` + strings.Repeat(one+",", writesMax-1) + one + `]}`: true,
		`{"writes":[` + strings.Repeat(one+",", writesMax) + one + `]}`:   false,
		`{"writes":[{"key":"a","delete":true,"if":1},{"delete":false}]}`:  true,
		`{"writes":[]}`: true,
		`{"writes":[{"key":"a"}],"writes":[{"key":"b"}]}`:                      false,
		`{"writes":[{"key":"a"}],"other":1}`:                                   false,
		`{"writes":[{"key":"a","ttlMs":-1}]}`:                                  false,
		`{"writes":[{"key":"a","message":{"queue":"q"},"message":{}}]}`:        false,
		`{"writes":[{"key":"a","message":null}]}`:                              false,
		`{"writes":[{"key":"a","message":{"queue":"q","receipthandle":"h"}}]}`: false,
		`{"writes":[{"key":"\u00e9"}]}`:                                        false,
		`{"writes": [{"key":"a"}]}`:                                            false,
		`{"writes":[{"key":"a"}]}{}`:                                           false,
	} {
		var got, want writesIn
		if ok := got.readPlain([]byte(text)); ok != plain {
			t.Errorf("%.80s: %v, want %v", text, ok, plain)
		}
		if !plain {
			if got.Writes != nil {
				t.Errorf("%.80s is not taken, and changes the input", text)
			}
			continue
		}
		if err := json.Unmarshal([]byte(text), &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%.80s: %+v, want %+v, %v", text, got, want, err)
		}
	}
}

// The writer without reflection writes the same bytes as encoding/json.
func TestResultsArePlain(t *testing.T) {
	plain := &record{Key: "claim/1", Version: 1764225600000001, AgeMS: 0, TTLMS: 60_000}
	for _, list := range []writeList{
		{Results: []writeResult{}},
		{Results: []writeResult{{Record: plain}}},
		{Results: []writeResult{{Record: plain, Deleted: true}, {Record: &record{Key: "a", Version: 1, AgeMS: 7}}}},
		{Results: []writeResult{{Record: &record{Key: `a"\é`, Version: 1}}, {}}},
		{Results: []writeResult{{Record: &record{Key: "a", Version: 1, Value: []byte("v")}, Conflict: true}, {Conflict: true}}},
		{Results: []writeResult{{Error: &writeError{429, "RequestThrottled", "Request is throttled."}}, {Record: plain}}},
		{Results: []writeResult{{Record: plain, Kept: &writeError{400, "ReceiptHandleIsInvalid", "it is"}}}},
	} {
		want, err := json.Marshal(list)
		if got := list.appendJSON(nil); err != nil || string(got) != string(want) {
			t.Errorf("got  %s\nwant %s, %v", got, want, err)
		}
	}
}
