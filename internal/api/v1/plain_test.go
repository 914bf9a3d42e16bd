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
