package cloudwatch

import (
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"tenaq/internal/api/wire"
)

// A given is a member of which only its presence matters: it is refused, or has no meaning here.
type given bool

// A field is a member of a structure, and what its tag says about it:
//
//	cw:"required,min=1,max=255,enum=StateValue" each:"min=1,max=255" refuse:"what to use instead"
//
// Min and max are the length of a text in characters, the size of a list, or the value of a number;
// each is for the elements of a list.
type field struct {
	name       string
	index      int
	required   bool
	refuse     string
	rule, each limits
}

// limits are those of one value.
type limits struct {
	min, max int64
	enum     []string
}

// listMax bounds lists for which the model has no limit. All lists of requests have one.
const listMax = 1000

// fields returns the members of a type of structure.
func fields(t reflect.Type) []field {
	if known, ok := fieldsOf.Load(t); ok {
		return known.([]field)
	}
	all := make([]field, t.NumField())
	for i := range all {
		f := t.Field(i)
		all[i] = field{name: f.Name, index: i, refuse: f.Tag.Get("refuse"),
			each: readLimits(f.Tag.Get("each"))}
		tag := f.Tag.Get("cw")
		tag, all[i].required = strings.CutPrefix(tag, "required")
		all[i].rule = readLimits(strings.TrimPrefix(tag, ","))
	}
	fieldsOf.Store(t, all)
	return all
}

var fieldsOf sync.Map // from a type to its fields

func readLimits(tag string) limits {
	l := limits{math.MinInt64, math.MaxInt64, nil}
	for part := range strings.SplitSeq(tag, ",") {
		name, v, _ := strings.Cut(part, "=")
		switch name {
		case "min":
			l.min, _ = strconv.ParseInt(v, 10, 64)
		case "max":
			l.max, _ = strconv.ParseInt(v, 10, 64)
		case "enum":
			l.enum = enums[v]
		}
	}
	return l
}

// A binder puts what a request holds into the fields of a structure.
type binder struct{ fit fit }

// structure fills a struct. Path names it for errors, as in "MetricData.1".
func (b binder) structure(v reflect.Value, from wire.Value, path string) error {
	for _, f := range fields(v.Type()) {
		at := f.name
		if path != "" {
			at = path + "." + f.name
		}
		m, err := from.Member(f.name)
		switch {
		case err != nil:
			return err
		case m == nil && f.required:
			return b.fit.missing(at)
		case m == nil:
			continue
		case f.refuse != "":
			return b.fit.invalid("The parameter %s is not supported: %s.", at, f.refuse)
		}
		if err := b.value(v.Field(f.index), m, at, f.rule, f.each); err != nil {
			return err
		}
	}
	return nil
}

var timeType = reflect.TypeFor[time.Time]()

// value fills a field of any kind.
func (b binder) value(v reflect.Value, from wire.Value, path string, rule, each limits) error {
	var err error
	switch {
	case v.Type() == timeType:
		var t time.Time
		t, err = from.Time()
		v.Set(reflect.ValueOf(t))
	case v.Type() == reflect.TypeFor[given]():
		v.SetBool(true)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return b.value(v.Elem(), from, path, rule, each)
	case v.Kind() == reflect.Struct:
		return b.structure(v, from, path)
	case v.Kind() == reflect.Slice:
		return b.slice(v, from, path, rule, each)
	case v.Kind() == reflect.String:
		var s string
		s, err = from.Text()
		v.SetString(s)
	case v.Kind() == reflect.Int64:
		var n int64
		n, err = from.Integer()
		v.SetInt(n)
	case v.Kind() == reflect.Float64:
		var n float64
		n, err = from.Number()
		v.SetFloat(n)
	case v.Kind() == reflect.Bool:
		var yes bool
		yes, err = from.Boolean()
		v.SetBool(yes)
	default:
		panic("a field of type " + v.Type().String())
	}
	if err != nil {
		return wire.Malformed("The parameter %s cannot be read: %v.", path, err)
	}
	return b.check(v, path, rule)
}

func (b binder) slice(v reflect.Value, from wire.Value, path string, rule, each limits) error {
	limit := min(rule.max, listMax)
	elements, err := from.List(int(limit))
	switch {
	case err != nil:
		return wire.Malformed("The parameter %s cannot be read: %v.", path, err)
	case int64(len(elements)) > limit:
		return b.fit.invalid("The collection %s must not have a size greater than %d.", path, limit)
	case int64(len(elements)) < rule.min:
		return b.fit.invalid("The collection %s must not have a size less than %d.", path, rule.min)
	}
	v.Set(reflect.MakeSlice(v.Type(), len(elements), len(elements)))
	for i, e := range elements {
		at := path + "." + strconv.Itoa(i+1)
		if e == nil {
			return b.fit.missing(at)
		}
		if err := b.value(v.Index(i), e, at, each, limits{}); err != nil {
			return err
		}
	}
	return nil
}

// check holds a scalar to its limits.
func (b binder) check(v reflect.Value, path string, rule limits) error {
	switch v.Kind() {
	case reflect.Int64:
		if n := v.Int(); n < rule.min || n > rule.max {
			return b.fit.invalid("The value %d for parameter %s is invalid: it must be %s.", n,
				path, rule.between("", ""))
		}
	case reflect.String:
		s := v.String()
		switch n := int64(utf8.RuneCountInString(s)); {
		case !utf8.ValidString(s):
			return b.fit.invalid("The value for parameter %s is invalid: it is not UTF-8.", path)
		case n < rule.min || n > rule.max:
			return b.fit.invalid("The value for parameter %s is invalid: it must have %s.", path,
				rule.between(" character", " characters"))
		case rule.enum != nil && !slices.Contains(rule.enum, s):
			return b.fit.invalid("The value %s for parameter %s is invalid: it must be one of %s.",
				wire.Quote(s), path, strings.Join(rule.enum, ", "))
		}
	}
	return nil
}

// between says which values are allowed, in what they are counted in.
func (l limits) between(one, many string) string {
	if l.max == math.MaxInt64 {
		if l.min == 1 {
			many = one
		}
		return "at least " + strconv.FormatInt(l.min, 10) + many
	}
	return "between " + strconv.FormatInt(l.min, 10) + " and " + strconv.FormatInt(l.max, 10) + many
}
