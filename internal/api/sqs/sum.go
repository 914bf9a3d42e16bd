package sqs

import (
	"crypto/md5"
	"hash"
	"sync"
)

// sumOf returns the MD5 of a body. [MD5-1]
func sumOf(body string) [md5.Size]byte {
	s := summers.Get().(*summer)
	defer summers.Put(s)
	s.hash.Reset()
	for len(body) > 0 {
		n := copy(s.part[:], body)
		s.hash.Write(s.part[:n])
		body = body[n:]
	}
	s.hash.Sum(s.sum[:0])
	return s.sum
}

// A summer is the memory that one sumOf works in. Package md5 takes no string, and parts of this
// size stay in the cache of the processor while they are copied.
type summer struct {
	hash hash.Hash
	part [4 << 10]byte
	sum  [md5.Size]byte
}

var summers = sync.Pool{New: func() any { return &summer{hash: md5.New()} }}
