package sqswire

import (
	"encoding/base64"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Decode fills req, which must be empty, from the parameters of a request in the Query protocol.
// The error is nil or an *Error; req is then in no particular state.
//
// Parameters that req does not have are ignored. Elements of lists and maps are taken in the order
// of their numbers, whichever are missing; they may have the name of the member instead of that of
// an element, as Tags.1.Key for Tag.1.Key, and a single one needs no number. A list that is given
// without elements, as AttributeNames=, is empty. A list of structures is also empty when it is not
// given at all, because the protocol has no other way to say so that all clients know.
// [XML-3 to XML-10, XML-30]
//
// Values that the JSON decoder refuses for their type are refused with the same texts and the code
// MalformedInput. An element of a map without its key or its value is refused with
// MissingParameter, which names it. [XML-27 to XML-29]
func (f Form) Decode(req Shape) error {
	d := queryDecoder{params: f.params}
	structureOf(req).visit(&d)
	if d.err != nil {
		return d.err
	}
	return nil
}

// A queryDecoder is the visitor that reads parameters. For every member that it visits it looks for
// the parameters of that name. Since they are sorted, those of a structure are next to each other,
// and a structure inside another is a part of the slice.
type queryDecoder struct {
	params []param // of the shape that is visited
	skip   int     // how many bytes of their names say where that shape is
	err    *Error  // the first one
}

func (d *queryDecoder) refuse(message string) {
	if d.err == nil {
		d.err = &Error{MalformedInput, message}
	}
}

// missing refuses a structure without a part that it cannot do without.
func (d *queryDecoder) missing(name string) {
	if d.err == nil {
		d.err = Errorf(MissingParameter, "The request must contain the parameter %s%s.",
			d.params[0].name[:d.skip], name)
	}
}

// search returns the first parameter whose name, without what is skipped, is not before name by
// compare.
func (d *queryDecoder) search(name string, compare func(rest, name string) int) int {
	return sort.Search(len(d.params), func(i int) bool {
		return compare(d.params[i].name[d.skip:], name) >= 0
	})
}

// compareBelow compares rest with all names that begin with name and a dot: it is zero for those.
func compareBelow(rest, name string) int {
	if len(rest) <= len(name) {
		if strings.Compare(rest, name) > 0 {
			return 1
		}
		return -1
	}
	if c := strings.Compare(rest[:len(name)], name); c != 0 {
		return c
	}
	return int(rest[len(name)]) - '.'
}

// find returns the parameter of just this name.
func (d *queryDecoder) find(name string) (value string, ok bool) {
	i := d.search(name, strings.Compare)
	if i < len(d.params) && d.params[i].name[d.skip:] == name {
		return d.params[i].value, true
	}
	return "", false
}

// below returns a decoder for the parameters whose names continue after name and a dot.
func (d *queryDecoder) below(name string) queryDecoder {
	from := d.search(name, compareBelow)
	to := from
	for to < len(d.params) && compareBelow(d.params[to].name[d.skip:], name) == 0 {
		to++
	}
	return queryDecoder{params: d.params[from:to], skip: d.skip + len(name) + 1}
}

// refuseBelow refuses parts of what has none.
func (d *queryDecoder) refuseBelow(inner queryDecoder) {
	if len(inner.params) == 0 {
		return
	}
	if isNumber(firstPart(inner.params[0].name[inner.skip:])) {
		d.refuse(textList)
	} else {
		d.refuse(textObject)
	}
}

// scalar returns the value of a member that has no parts.
func (d *queryDecoder) scalar(name string) (value string, ok bool) {
	d.refuseBelow(d.below(name))
	return d.find(name)
}

func (d *queryDecoder) optString(m *member, p *Opt[string]) {
	if value, ok := d.scalar(m.name); ok {
		*p = Some(value)
	}
}

func (d *queryDecoder) optInt(m *member, p *Opt[int64]) {
	if value, ok := d.scalar(m.name); ok {
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || value[0] == '+' {
			d.refuse("STRING_VALUE" + textNotInteger)
		}
		*p = Some(n)
	}
}

func (d *queryDecoder) string(m *member, p *string) { *p, _ = d.scalar(m.name) }

func (d *queryDecoder) int(m *member, p *int64) {
	var n Opt[int64]
	d.optInt(m, &n)
	*p = n.Value
}

func (d *queryDecoder) bool(m *member, p *bool) {
	value, _ := d.scalar(m.name)
	*p = value == "true"
}

func (d *queryDecoder) blob(m *member, p *[]byte) {
	value, ok := d.scalar(m.name)
	if !ok {
		return
	}
	b, err := base64.StdEncoding.Strict().DecodeString(value)
	if err != nil || strings.ContainsAny(value, "\r\n") {
		d.refuse(textNoBlob)
	}
	*p = b
}

// An element is one of a list or a map.
type element struct {
	number int // -1 when it has none
	value  string
	given  bool         // it has a value of its own
	parts  queryDecoder // what is below it
}

// elements returns the elements of a list in order. given tells an empty list from none. What
// stands below the list and is no number must be one of parts, or it is refused: no list has such
// elements. no is the refusal of a list that is given as a text; when it is empty, that is an
// element.
func (d *queryDecoder) elements(
	m *member, no string, parts ...string,
) (list []element, given bool) {
	for i, name := range [...]string{m.element, capital(m.name)} {
		if i > 0 && name == m.element {
			break
		}
		if value, ok := d.find(name); ok {
			switch given = true; {
			case value == "":
			case no == "":
				list = append(list, element{number: -1, value: value, given: true})
			default:
				d.refuse(no)
			}
		}
		list = d.numbered(list, d.below(name), parts)
	}
	slices.SortStableFunc(list, func(a, b element) int { return a.number - b.number })
	return list, given || len(list) > 0
}

// capital returns the name of a member with a capital letter, as all names in the Query protocol
// have.
func capital(name string) string {
	if 'a' <= name[0] && name[0] <= 'z' {
		return string(name[0]-'a'+'A') + name[1:]
	}
	return name
}

// numbered appends the elements that below holds.
func (d *queryDecoder) numbered(list []element, below queryDecoder, parts []string) []element {
	single := false
	for from := 0; from < len(below.params); {
		part := firstPart(below.params[from].name[below.skip:])
		if slices.Contains(parts, part) {
			single = true
			from++
			continue
		}
		if !isNumber(part) {
			d.refuse(textList)
			return list
		}
		e := element{}
		e.number, _ = strconv.Atoi(part)
		if own := below.params[from]; own.name[below.skip:] == part {
			e.value, e.given = own.value, true
			from++
		}
		to := from
		for to < len(below.params) && compareBelow(below.params[to].name[below.skip:], part) == 0 {
			to++
		}
		e.parts = queryDecoder{params: below.params[from:to], skip: below.skip + len(part) + 1}
		list = append(list, e)
		from = to
	}
	if single {
		list = append(list, element{number: -1, parts: below})
	}
	return list
}

func (d *queryDecoder) strings(m *member, p *[]string) {
	list, given := d.elements(m, "")
	if !given {
		return
	}
	*p = make([]string, 0, len(list))
	for _, e := range list {
		d.refuseBelow(e.parts)
		*p = append(*p, e.value)
	}
}

func (d *queryDecoder) listGiven(m *member, p *bool) {
	list, _ := d.elements(m, "")
	*p = len(list) > 0
}

func (d *queryDecoder) structs(m *member, l list) {
	list, _ := d.elements(m, textNoList)
	l.clear()
	for _, e := range list {
		d.visit(&e, l.add())
	}
}

// visit reads a structure that is an element, or a part of one.
func (d *queryDecoder) visit(e *element, s structure) {
	if e.value != "" {
		d.refuse(textNoObject)
	}
	outer := *d
	d.params, d.skip = e.parts.params, e.parts.skip
	s.visit(d)
	d.params, d.skip = outer.params, outer.skip
}

func (d *queryDecoder) pairs(m *member, p *Pairs) {
	list, given := d.elements(m, textNoObject, m.key, "Value")
	if !given {
		return
	}
	*p = make(Pairs, len(list))
	for i, e := range list {
		(*p)[i].Name = d.part(&e, m.key)
		(*p)[i].Value = d.part(&e, "Value")
	}
	sortForm(d, *p, m.element, comparePairs)
}

// part returns one of the texts of an element of a map, which must be there.
func (d *queryDecoder) part(e *element, name string) string {
	if len(e.parts.params) == 0 { // the element itself is a text
		d.refuse(textNoObject)
		return ""
	}
	value, ok := e.parts.scalar(name)
	if !ok {
		e.parts.missing(name)
	}
	if d.err == nil {
		d.err = e.parts.err
	}
	return value
}

func (d *queryDecoder) attributes(m *member, p *MessageAttributes) {
	list, given := d.elements(m, textNoObject)
	if !given {
		return
	}
	*p = make(MessageAttributes, len(list))
	for i, e := range list {
		a := &(*p)[i]
		a.Name = d.part(&e, "Name")
		value, _ := e.parts.find("Value")
		d.visit(&element{value: value, parts: e.parts.below("Value")}, attributeOf(a))
	}
	sortForm(d, *p, m.element, compareAttributes)
}

// sortForm sorts a map and refuses a name that is there twice.
func sortForm[S ~[]E, E any](d *queryDecoder, s S, query string, compare func(a, b E) int) {
	slices.SortFunc(s, compare)
	for i := 1; i < len(s); i++ {
		if compare(s[i-1], s[i]) == 0 && d.err == nil {
			d.err = errForm("two elements of %s have the same name", query)
		}
	}
}
