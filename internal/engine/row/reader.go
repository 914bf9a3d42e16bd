package row

import "iter"

// A Reader is the part of a kv.Store that only reads.
type Reader interface {
	Get(dst, key []byte) (value []byte, ok bool)
	Scan(lo, hi []byte) iter.Seq2[[]byte, []byte]
}
