package kv

import (
	"bytes"
	"hash/maphash"
)

// A tree is an immutable ordered map from key to T: a treap whose shape depends on its keys alone.
// Changing it returns a new tree that shares all untouched nodes with the old one, so holding on to
// a root is holding a snapshot. The zero tree is empty.
type tree[T any] struct{ root *treeNode[T] }

type treeNode[T any] struct {
	key         []byte
	value       T
	rank        uint64 // a node's rank is at least that of its children
	left, right *treeNode[T]
}

var rankSeed = maphash.MakeSeed()

// get returns the value of key.
func (t tree[T]) get(key []byte) (value T, ok bool) {
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

// with returns the tree with key set to value. The tree keeps key.
func (t tree[T]) with(key []byte, value T) tree[T] {
	return tree[T]{insert(t.root,
		&treeNode[T]{key: key, value: value, rank: maphash.Bytes(rankSeed, key)})}
}

// without returns the tree with no key.
func (t tree[T]) without(key []byte) tree[T] { return tree[T]{remove(t.root, key)} }

// withoutRange returns the tree with no key in lo <= key < hi, in logarithmic time.
func (t tree[T]) withoutRange(lo, hi []byte) tree[T] {
	if bytes.Compare(lo, hi) >= 0 {
		return t
	}
	below, rest := split(t.root, lo)
	_, above := split(rest, hi)
	return tree[T]{join(below, above)}
}

// ascend calls yield for the keys from lo on, in order, until it returns false.
func (t tree[T]) ascend(lo []byte, yield func(key []byte, value T) bool) {
	var path []*treeNode[T] // nodes to visit once the part to the left of each is done
	for n := t.root; n != nil; {
		if bytes.Compare(n.key, lo) < 0 {
			n = n.right
		} else {
			path = append(path, n)
			n = n.left
		}
	}
	for len(path) > 0 {
		n := path[len(path)-1]
		path = path[:len(path)-1]
		if !yield(n.key, n.value) {
			return
		}
		for n = n.right; n != nil; n = n.left {
			path = append(path, n)
		}
	}
}

// insert returns a copy of n with add in it, replacing the node of the same key.
func insert[T any](n, add *treeNode[T]) *treeNode[T] {
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
func remove[T any](n *treeNode[T], key []byte) *treeNode[T] {
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
func split[T any](n *treeNode[T], key []byte) (below, rest *treeNode[T]) {
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
func join[T any](a, b *treeNode[T]) *treeNode[T] {
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
