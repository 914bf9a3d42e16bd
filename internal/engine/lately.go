package engine

import "slices"

// A lately holds elements that were read or written lately, by key. The oldest are forgotten first.
type lately[K comparable, V any] struct {
	of    map[K]V
	order []K // the keys in the order they came, and some that are gone
}

func (l *lately[K, V]) put(k K, v V) {
	if _, ok := l.of[k]; !ok {
		l.order = append(l.order, k)
	}
	l.of[k] = v
}

// trim keeps limit elements. Forget is called with each one that goes.
func (l *lately[K, V]) trim(limit int, forget func(V)) {
	for ; len(l.of) > limit; l.order = l.order[1:] {
		if v, ok := l.of[l.order[0]]; ok {
			forget(v)
			delete(l.of, l.order[0])
		}
	}
	if len(l.order) > 2*len(l.of)+64 {
		l.order = slices.DeleteFunc(slices.Clone(l.order), func(k K) bool {
			_, ok := l.of[k]
			return !ok
		})
	}
}
