package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/aws/smithy-go/encoding/cbor"
)

const (
	epochTag = 1 // of a time, in seconds since 1970

	// items bounds the parts of a body, because each takes a multiple of its size in memory. The
	// largest request that CloudWatch allows in a mebibyte, a thousand metrics with a hundred
	// values, has fewer.
	items = 150_000
)

// ReadCBOR reads the body of a request in CBOR. An empty body is an empty map.
func ReadCBOR(body []byte) (Value, error) {
	if len(body) == 0 {
		return value{cbor.Map{}}, nil
	}
	w := cborWalk{rest: body, left: items}
	if err := w.item(0); err != nil {
		return nil, Malformed("The body is not CBOR that can be read: %v.", err)
	}
	if len(w.rest) > 0 {
		return nil, Malformed("There is more in the body than one CBOR item.")
	}
	v, err := cbor.Decode(body)
	if err != nil {
		return nil, Malformed("The body is not CBOR that can be read: %v.", err)
	}
	return value{v}, nil
}

// A cborWalk checks a body before it is decoded. The decoder allocates for every item, a hundred
// bytes for the one byte of an empty map, and ignores lengths beyond 2^63.
type cborWalk struct {
	rest []byte
	left int // items
}

var (
	errCBOREnd   = errors.New("it ends early")
	errCBORDepth = fmt.Errorf("it is nested deeper than %d", depthMax)
	errCBORItems = fmt.Errorf("it has more than %d parts; send less at a time", items)
)

// item goes over one item and all that is in it.
func (w *cborWalk) item(depth int) error {
	if depth > depthMax {
		return errCBORDepth
	}
	if w.left--; w.left < 0 {
		return errCBORItems
	}
	major, argument, open, err := w.head()
	if err != nil {
		return err
	}
	n := argument
	switch major {
	case 2, 3: // bytes, text
		if open {
			return w.until(func() error { return w.item(depth + 1) })
		}
		return w.skip(argument)
	case 4: // list
		if open {
			return w.until(func() error { return w.item(depth + 1) })
		}
	case 5: // map
		if open {
			return w.until(func() error {
				if err := w.item(depth + 1); err != nil {
					return err
				}
				return w.item(depth + 1)
			})
		}
		if n > math.MaxUint64/2 {
			return errCBOREnd
		}
		n *= 2
	case 6: // tag
		return w.item(depth + 1)
	default:
		return nil
	}
	for range n { // which ends with the body, whatever the length claims
		if err := w.item(depth + 1); err != nil {
			return err
		}
	}
	return nil
}

// head reads the beginning of an item: what it is, and its number or length. Open says that the
// length is not told.
func (w *cborWalk) head() (major byte, argument uint64, open bool, err error) {
	if len(w.rest) == 0 {
		return 0, 0, false, errCBOREnd
	}
	first := w.rest[0]
	w.rest = w.rest[1:]
	major, minor := first>>5, first&31
	switch {
	case minor < 24:
		return major, uint64(minor), false, nil
	case minor <= 27:
		n := 1 << (minor - 24)
		if len(w.rest) < n {
			return 0, 0, false, errCBOREnd
		}
		var b [8]byte
		copy(b[8-n:], w.rest)
		w.rest = w.rest[n:]
		return major, binary.BigEndian.Uint64(b[:]), false, nil
	case minor == 31 && major >= 2 && major <= 5:
		return major, 0, true, nil
	}
	return 0, 0, false, fmt.Errorf("there is no item that begins with %#x", first)
}

// until goes over items up to the one that ends them.
func (w *cborWalk) until(item func() error) error {
	for len(w.rest) > 0 {
		if w.rest[0] == 0xff {
			w.rest = w.rest[1:]
			return nil
		}
		if err := item(); err != nil {
			return err
		}
	}
	return errCBOREnd
}

func (w *cborWalk) skip(n uint64) error {
	if n > uint64(len(w.rest)) {
		return errCBOREnd
	}
	w.rest = w.rest[n:]
	return nil
}

// EncodeCBOR returns a tree as CBOR.
func EncodeCBOR(t Tree) []byte { return cbor.Encode(cborOf(t)) }

func cborOf(t Tree) cbor.Value {
	switch t := t.(type) {
	case Object:
		m := make(cbor.Map, len(t))
		for _, e := range t {
			m[e.Name] = cborOf(e.Tree)
		}
		return m
	case List:
		l := make(cbor.List, len(t))
		for i, e := range t {
			l[i] = cborOf(e)
		}
		return l
	case string:
		return cbor.String(t)
	case int64:
		if t < 0 {
			return cbor.NegInt(-t)
		}
		return cbor.Uint(t)
	case float64:
		return cbor.Float64(t)
	case bool:
		return cbor.Bool(t)
	case time.Time:
		return &cbor.Tag{ID: epochTag, Value: cbor.Float64(float64(t.UnixMilli()) / 1000)}
	}
	return &cbor.Nil{}
}
