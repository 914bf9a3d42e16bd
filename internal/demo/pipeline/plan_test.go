package pipeline

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
)

// A seed is a plan, and every plan has what the rows are about.
func TestPlan(t *testing.T) {
	for range 200 {
		seed := rand.Uint64()
		p := newPlan(seed)
		if again := newPlan(seed); !reflect.DeepEqual(p, again) {
			t.Fatalf("seed %d: two plans", seed)
		}
		// A file that is to fail must not die of anything else, or nobody could say after how many tasks.
		for _, id := range []string{fileNotYet, fileDamaged, fileWithdrawn} {
			if d, ok := p.Deaths[id]; ok {
				t.Errorf("seed %d: %s has a death: %v", seed, id, d)
			}
		}
		for id, want := range map[string]moment{
			fileBeforeClaim: beforeClaim, fileAmidTask: amidTask, fileAmidWorker: amidWorker,
			fileAfterWrite: afterWrite, fileAfterComplete: afterComplete, fileUnsent: beforeSend, fileUnswept: beforeSend,
		} {
			if got := p.Deaths[id].Moment; got != want {
				t.Errorf("seed %d: %s dies %q, want %q", seed, id, got, want)
			}
		}
		if got, want := len(p.Deaths), 7+1+randomDeaths; got != want {
			t.Errorf("seed %d: %d deaths, want %d", seed, got, want)
		}
		seen := make(map[string]bool)
		for _, f := range p.Files {
			if seen[f.ID] {
				t.Errorf("seed %d: %s twice", seed, f.ID)
			}
			seen[f.ID] = true
		}
		for id := range p.Deaths {
			if !seen[id] {
				t.Errorf("seed %d: a death of %s, which is no file", seed, id)
			}
		}
	}
}

// The processes of a run are told the plan in a file.
func TestPlanAsJSON(t *testing.T) {
	p := newPlan(7)
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var got plan
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, p) {
		t.Errorf("got %v and error %v, want %v", got, err, p)
	}
}

func TestBody(t *testing.T) {
	f := file{ID: "accounts-2026-02-28"}
	if got, want := f.body(31), `{"FileID":"accounts-2026-02-28","Entity":"accounts","BatchID":31}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
