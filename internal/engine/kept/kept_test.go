package kept

import "testing"

// A receive finds what moved in its turn and in later ones, and not what moved before. [RCV-23]
func TestFind(t *testing.T) {
	first := new(Contents)
	if first.Next() != first {
		t.Error("a turn in which nothing moved has contents of its own")
	}
	first.Put(Place{1, 1}, []byte("a"))
	second := first.Next()
	second.Put(Place{1, 2}, []byte("b"))
	third := second.Next()
	for _, test := range []struct {
		c    *Contents
		seq  uint64
		want string
		ok   bool
	}{
		{first, 1, "a", true}, {first, 2, "b", true}, {second, 2, "b", true}, {second, 1, "", false},
		{third, 2, "", false}, {first, 3, "", false}, {nil, 1, "", false},
	} {
		if got, ok := test.c.Find(Place{1, test.seq}); string(got) != test.want || ok != test.ok {
			t.Errorf("Find(%d): got %q, %v, want %q, %v", test.seq, got, ok, test.want, test.ok)
		}
	}
}
