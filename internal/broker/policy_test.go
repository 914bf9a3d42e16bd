package broker

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"tenaq/internal/engine"
)

// Permissions added at the same time are all there in the end. A request that begins after the
// answer sees each of them, even if an earlier state is cached. [AUTH-43, AUTH-45]
func TestPermissionsAtTheSameTime(t *testing.T) {
	const statements = 20 // a policy can have
	bubble(t, func(t *testing.T, r *rig) {
		var all sync.WaitGroup
		for i := range statements {
			label := fmt.Sprint("l", i)
			all.Go(func() {
				before := r.PolicyVersion()
				err := r.Do(t.Context(), &engine.AddPermission{Queue: named("orders"), Label: text(label),
					Accounts: []string{"111122223333"}, Actions: []string{"SendMessage"}})
				if err != nil {
					t.Error(err)
				}
				if r.PolicyVersion() == before {
					t.Errorf("%s was answered, and the version of policies is what it was", label)
				}
				if got := r.Policy(named("orders")); !strings.Contains(got, `"`+label+`"`) {
					t.Errorf("%s was answered, and the policy is %s", label, got)
				}
			})
		}
		all.Wait()
		got := r.Policy(named("orders"))
		if n := strings.Count(got, `"Sid"`); n != statements {
			t.Errorf("got %d statements, want %d: %s", n, statements, got)
		}
	})
}

// The version grows with everything that makes another policy of one, and with nothing else.
func TestPolicyVersion(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const allow = `{"Statement":{"Effect":"Allow","Principal":"*","Action":"sqs:*"}}`
		set := func(value string) engine.Op {
			return &engine.SetQueueAttributes{Queue: named("orders"), Values: map[string]string{"Policy": value}}
		}
		for _, step := range []struct {
			name string
			op   engine.Op
			grow bool
			want string // the policy of orders
		}{
			{"a send", sendOp("orders", "x"), false, ""},
			{"none instead of none", set(""), false, ""},
			{"a policy", set(allow), true, allow},
			{"the same", set(allow), false, allow},
			{"another attribute", &engine.SetQueueAttributes{Queue: named("orders"), Values: map[string]string{"DelaySeconds": "1"}}, false, allow},
			{"a queue without one", &engine.CreateQueue{Queue: named("plain"), NameSet: true}, false, allow},
			{"a queue with one", &engine.CreateQueue{Queue: named("guarded"), NameSet: true, Attributes: map[string]string{"Policy": allow}}, true, allow},
			{"the same again", &engine.CreateQueue{Queue: named("guarded"), NameSet: true, Attributes: map[string]string{"Policy": allow}}, false, allow},
			{"a queue without one goes", &engine.DeleteQueue{Queue: named("plain")}, false, allow},
			{"a queue with one goes", &engine.DeleteQueue{Queue: named("guarded")}, true, allow},
			{"its queue goes", &engine.DeleteQueue{Queue: named("orders")}, true, ""},
		} {
			before := r.PolicyVersion()
			if err := r.Do(t.Context(), step.op); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			if grew := r.PolicyVersion() > before; grew != step.grow {
				t.Errorf("%s: the version grew %v, want %v", step.name, grew, step.grow)
			}
			if got := r.Policy(named("orders")); got != step.want {
				t.Errorf("%s: got policy %s, want %s", step.name, got, step.want)
			}
		}
	})
}
