// Package tree holds rows in memory, in an ordered map that never changes. So a reader needs no
// lock, and sees the rows as they were when it began.
package tree

import (
	"bytes"
	"hash/maphash"
)

// A Tree is an immutable ordered map from key to T: a treap whose shape depends on its keys alone.
// Changing it returns a new tree that shares all untouched nodes with the old one, so holding on to
// a root is holding a snapshot. The zero Tree is empty.
type Tree[T any] struct{ root *node[T] }

type node[T any] struct {
	key         []byte
	value       T
	rank        uint64 // a node's rank is at least that of its children
	left, right *node[T]
}

var rankSeed = maphash.MakeSeed()

// Get returns the value of key.
func (t Tree[T]) Get(key []byte) (value T, ok bool) {
	for n := t.root; n != nil; {
		switch c := bytes.Compare(key, n.key); {
		case c < 0:
			n = n.left
		case c > 0:
			n = n.right
		default:
			return n.value, true
		}
	}
	return value, false
}

// With returns the tree with key set to value. The tree keeps key.
func (t Tree[T]) With(key []byte, value T) Tree[T] {
	return Tree[T]{insert(t.root,
		&node[T]{key: key, value: value, rank: maphash.Bytes(rankSeed, key)})}
}

// Without returns the tree with no key.
func (t Tree[T]) Without(key []byte) Tree[T] { return Tree[T]{remove(t.root, key)} }

// WithoutRange returns the tree with no key in lo <= key < hi, in logarithmic time.
func (t Tree[T]) WithoutRange(lo, hi []byte) Tree[T] {
	if bytes.Compare(lo, hi) >= 0 {
		return t
	}
	below, rest := split(t.root, lo)
	_, above := split(rest, hi)
	return Tree[T]{join(below, above)}
}

// From returns a Cursor on the keys from lo on.
func (t Tree[T]) From(lo []byte) Cursor[T] {
	var c Cursor[T]
	for n := t.root; n != nil; {
		if bytes.Compare(n.key, lo) < 0 {
			n = n.right
		} else {
			c.path = append(c.path, n)
			n = n.left
		}
	}
	return c
}

// A Cursor steps through the keys of a tree in order.
type Cursor[T any] struct {
	path []*node[T] // nodes to visit once the part to the left of each is done
}

// Next returns the next key and its value; ok is false after the last.
func (c *Cursor[T]) Next() (key []byte, value T, ok bool) {
	if len(c.path) == 0 {
		return nil, value, false
	}
	last := len(c.path) - 1
	n := c.path[last]
	c.path = c.path[:last]
	for right := n.right; right != nil; right = right.left {
		c.path = append(c.path, right)
	}
	return n.key, n.value, true
}

// insert returns a copy of n with add in it, replacing the node of the same key.
func insert[T any](n, add *node[T]) *node[T] {
	if n == nil {
		return add
	}
	c := bytes.Compare(add.key, n.key)
	if c == 0 {
		add.left, add.right = n.left, n.right
		return add
	}
	if add.rank > n.rank {
		// The same key has the same rank, so it is not below n and nothing is replaced.
		add.left, add.right = split(n, add.key)
		return add
	}
	m := *n
	if c < 0 {
		m.left = insert(n.left, add)
	} else {
		m.right = insert(n.right, add)
	}
	return &m
}

// remove returns n without key, or n itself when key is not there.
func remove[T any](n *node[T], key []byte) *node[T] {
	if n == nil {
		return nil
	}
	c := bytes.Compare(key, n.key)
	if c == 0 {
		return join(n.left, n.right)
	}
	if c < 0 {
		left := remove(n.left, key)
		if left == n.left {
			return n
		}
		m := *n
		m.left = left
		return &m
	}
	right := remove(n.right, key)
	if right == n.right {
		return n
	}
	m := *n
	m.right = right
	return &m
}

// split divides n into the keys below key and the others.
func split[T any](n *node[T], key []byte) (below, rest *node[T]) {
	if n == nil {
		return nil, nil
	}
	m := *n
	if bytes.Compare(n.key, key) < 0 {
		m.right, rest = split(n.right, key)
		return &m, rest
	}
	below, m.left = split(n.left, key)
	return below, &m
}

// join merges two trees of which every key of a is below every key of b.
func join[T any](a, b *node[T]) *node[T] {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.rank >= b.rank:
		m := *a
		m.right = join(a.right, b)
		return &m
	default:
		m := *b
		m.left = join(a, b.left)
		return &m
	}
}
