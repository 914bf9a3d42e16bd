package claims

import (
	"encoding/json"
	"reflect"
	"testing"

	"tenaq/records"
)

// An entry is written without encoding/json, and read by it, here and by other programs.
func TestEncode(t *testing.T) {
	full := stored{State: Failed, Owner: "a\"b/é\n1", Nonce: "N", Fence: 1 << 63, Attempts: 3, LeaseMS: 60_000,
		Result: []byte{0, 255}, Reason: "<&>", Message: "m-1", Memo: []byte("memo"), Unknown: true, Before: &before{Held, "w", 2, []byte{1}, "why", true}}
	alone := []stored{{State: Held}, full}
	v := reflect.ValueOf(full)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "Version" {
			t.Errorf("the test has no %s", name)
		}
		one := stored{State: Held}
		reflect.ValueOf(&one).Elem().Field(i).Set(v.Field(i))
		alone = append(alone, one)
	}
	for _, s := range alone {
		var got, want stored
		text := s.encode()
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		s.Version = entryVersion
		b, _ := json.Marshal(s)
		if err := json.Unmarshal(b, &want); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s, want %s", text, b)
		}
		if s.State == "" {
			continue
		}
		if found, err := decode(records.Record{Value: text, Version: 7}); err != nil || found.State != s.State {
			t.Errorf("%s: %+v, %v", text, found, err)
		}
	}
}
