package cluster

import "testing"

func TestQuorum(t *testing.T) {
	for _, test := range []struct {
		name  string
		roles []Role // of voters
		want  Quorum
		spare int
	}{
		{"none is known", nil, Quorum{}, -1},
		{"one", []Role{Leader}, Quorum{1, 1}, 0},
		{"two", []Role{Leader, Follower}, Quorum{2, 2}, 0},
		{"three", []Role{Leader, Follower, Follower}, Quorum{3, 3}, 1},
		{"three without one", []Role{Leader, Unreachable, Follower}, Quorum{3, 2}, 0},
		{"three with one that stopped", []Role{Leader, Stopped, Follower}, Quorum{3, 2}, 0},
		{"three without two", []Role{Follower, Unreachable, Unreachable}, Quorum{3, 1}, -1},
		{"four", []Role{Leader, Follower, Follower, Follower}, Quorum{4, 4}, 1},
		{"a role of a later version", []Role{Leader, "witness", Follower}, Quorum{3, 3}, 1},
	} {
		s := Status{Members: []Member{{Role: Learner}, {Role: Unreachable}}} // without a vote
		for _, r := range test.roles {
			s.Members = append(s.Members, Member{Role: r, Voter: true})
		}
		if got := s.Quorum(); got != test.want || got.Spare() != test.spare {
			t.Errorf("%s: got %+v with %d to spare, want %+v with %d", test.name, got, got.Spare(), test.want, test.spare)
		}
	}
}

func TestShort(t *testing.T) {
	for id, want := range map[string]string{"": "", "3f9c": "3f9c", "3f9c1a2b44aa": "3f9c1a2b"} {
		if got := Short(id); got != want {
			t.Errorf("%q: got %q, want %q", id, got, want)
		}
	}
}
