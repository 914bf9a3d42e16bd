package sqswire

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of a request body. The largest legal request, ten entries with ten attributes each, is far
// below.
const (
	depthMax = 32   // objects and lists inside each other
	itemsMax = 4096 // names of members and elements of lists, in the whole body
)

// The texts with which AWS refuses a value of the wrong type.
const (
	textObject     = "Start of structure or map found where not expected."
	textList       = "Start of list found where not expected"
	textListInMap  = "Unrecognized collection type class java.lang.String"
	textNoList     = "Expected list or null"
	textNoObject   = "Expected null"
	textNoBlob     = "only base-64-encoded strings are convertible to bytes"
	textNotInteger = " can not be converted to an Integer" // after the kind of the value
)

// DecodeJSON fills req, which must be empty, from a request body in AWS JSON 1.0. The error is nil
// or an *Error with the code MalformedInput, in JSON SerializationException; req is then in no
// particular state.
//
// The body must be one object in valid UTF-8 without a byte order mark. Members that req does not
// have are skipped, but must be well-formed. A member or a name in a map that is given twice is
// refused: two readers of the same request could otherwise disagree on what it asks. A surrogate
// without its partner is refused, because no string can hold it. Null is the same as absent
// everywhere, so a null in a list or a map is dropped. [WIRE-4] [WIRE-5] [WIRE-6] [WIRE-10]
//
// For a string, a number or a boolean is taken as its text. For an integer, any number is taken
// whose value is whole and fits int64, such as 1e3; AWS would cut off a fraction. A number as a
// string is refused. [WIRE-7] [WIRE-8]
//
// DecodeJSON copies the body once, and strings in req are parts of that copy. A caller that keeps
// one of them for long keeps the whole copy alive, and should clone it unless it is most of the
// body. The body itself may be reused after the return.
func DecodeJSON(body []byte, req Shape) error {
	d := decoder{scanner: scanner{s: string(body)}}
	if !utf8.ValidString(d.s) {
		d.syntax("it is not valid UTF-8")
	}
	if c := d.peek(); c != '{' && c != '[' {
		d.syntax("it is not an object")
	}
	d.structure(structureOf(req))
	if d.space(); d.err == nil && d.pos < len(d.s) {
		d.syntax("something follows the object")
	}
	if d.err != nil {
		return d.err
	}
	return nil
}

// A decoder is the visitor that reads JSON. For every name that it meets in an object it visits the
// member of that name, unless the value is null.
type decoder struct{ scanner }

// structure reads an object into s.
func (d *decoder) structure(s structure) {
	if !d.open('{', textNoObject) {
		return
	}
	var seen uint64
	for d.next('}') {
		name := d.name()
		i := 0
		for i < len(s.members) && s.members[i].name != name {
			i++
		}
		if i == len(s.members) {
			d.skip()
			continue
		}
		if !d.null() {
			s.show(&s.members[i], d)
		}
		bit := uint64(1) << i
		if seen&bit != 0 {
			d.syntax("a member is given twice")
		}
		seen |= bit
	}
}

func (d *decoder) optString(_ *member, p *Opt[string]) { *p = Some(d.text(textList)) }
func (d *decoder) optInt(_ *member, p *Opt[int64])     { *p = Some(d.integer()) }
func (d *decoder) string(_ *member, p *string)         { *p = d.text(textList) }
func (d *decoder) int(_ *member, p *int64)             { *p = d.integer() }
func (d *decoder) bool(_ *member, p *bool)             { *p = d.literal() == "true" }
func (d *decoder) blob(_ *member, p *[]byte)           { *p = d.base64() }

func (d *decoder) strings(_ *member, p *[]string) {
	if !d.open('[', textNoList) {
		return
	}
	*p = []string{}
	for d.next(']') {
		if !d.null() {
			*p = append(*p, d.text(textList))
		}
	}
}

func (d *decoder) pairs(_ *member, p *Pairs) {
	if !d.open('{', textNoObject) {
		return
	}
	*p = Pairs{}
	var nulls Pairs
	for d.next('}') {
		key := d.name()
		if d.null() {
			nulls = append(nulls, Pair{Name: key})
		} else {
			*p = append(*p, Pair{key, d.text(textListInMap)})
		}
	}
	makeMap(d, *p, nulls, comparePairs)
}

func (d *decoder) attributes(_ *member, p *MessageAttributes) {
	if !d.open('{', textNoObject) {
		return
	}
	*p = MessageAttributes{}
	var nulls MessageAttributes
	for d.next('}') {
		key := d.name()
		if d.null() {
			nulls = append(nulls, MessageAttribute{Name: key})
		} else {
			*p = append(*p, MessageAttribute{Name: key})
			d.structure(attributeOf(&(*p)[len(*p)-1]))
		}
	}
	makeMap(d, *p, nulls, compareAttributes)
}

// makeMap sorts the entries of a JSON object and refuses a name that is given twice, even when one
// of its values was null.
func makeMap[S ~[]E, E any](d *decoder, s, nulls S, compare func(a, b E) int) {
	slices.SortFunc(s, compare)
	all := s
	if len(nulls) > 0 {
		all = sorted(slices.Concat(s, nulls), compare)
	}
	for i := 1; i < len(all); i++ {
		if compare(all[i-1], all[i]) == 0 {
			d.syntax("a name in a map is given twice")
		}
	}
}

func (d *decoder) structs(_ *member, l list) {
	if !d.open('[', textNoList) {
		return
	}
	l.clear()
	for d.next(']') {
		if !d.null() {
			d.structure(l.add())
		}
	}
}

func (d *decoder) listGiven(_ *member, p *bool) {
	if !d.open('[', textNoList) {
		return
	}
	for d.next(']') {
		if !d.null() {
			*p = true
			d.skip()
		}
	}
}

// text reads a string, or the text of a number or a boolean. list is the refusal of a list.
func (d *decoder) text(list string) string {
	switch d.peek() {
	case '"':
		return d.quoted()
	case '{':
		d.refuse(textObject)
	case '[':
		d.refuse(list)
	case 't', 'f':
		return d.literal()
	default:
		return d.number()
	}
	return ""
}

// integer reads a number that is whole.
func (d *decoder) integer() int64 {
	switch d.peek() {
	case '"':
		d.refuse("STRING_VALUE" + textNotInteger)
	case '{':
		d.refuse(textObject)
	case '[':
		d.refuse(textList)
	case 't', 'f':
		if v := d.literal(); v != "" {
			d.refuse(strings.ToUpper(v) + "_VALUE" + textNotInteger)
		}
	default:
		text := d.number()
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
		// The bounds are the powers of two at which a float64 no longer fits.
		if f, err := strconv.ParseFloat(text, 64); err == nil && f == math.Trunc(f) &&
			f >= -1<<63 && f < 1<<63 {
			return int64(f)
		}
		d.refuse("NUMBER_VALUE" + textNotInteger)
	}
	return 0
}

// base64 reads bytes in the standard encoding with padding. Line breaks, which package base64 would
// skip, are refused, and so are stray bits at the end.
func (d *decoder) base64() []byte {
	switch d.peek() {
	case '"':
		text := d.quoted()
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		if err == nil && !strings.ContainsAny(text, "\r\n") {
			return b
		}
		d.refuse(textNoBlob)
	case '{':
		d.refuse(textObject)
	case '[':
		d.refuse(textList)
	default:
		d.skip()
		d.refuse(textNoBlob)
	}
	return nil
}
