package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"tenaq/internal/engine/row"
	"tenaq/internal/work/sqslimits"
)

// An Entry is a message as the request to send it has it.
type Entry struct {
	ID         Text // of the entry within its batch
	Body       Text
	BodyMD5    [16]byte
	Attributes []EntryAttribute
	System     []EntryAttribute
	Delay      Int // seconds
	Group      Text
	Dedup      Text
	Sender     string
	Trace      string // from the transport, when no system attribute says otherwise [MA-21]
}

// An EntryAttribute is an attribute as the request has it, which may be illegal.
type EntryAttribute struct {
	Name   string
	Type   Text
	String Text
	Binary []byte
	HasBinary,
	HasList bool
}

// A Draft is a message that is ready to be sent. NewDraft makes it on any goroutine: it checks and
// encodes everything that does not depend on the queue, so that the single writer need not.
type Draft struct {
	id           Text
	delay        Int
	group, dedup Text
	contentKey   string // hash of the body, when a FIFO queue might need it [DEDUP-2]
	size         int64  // as SQS counts it, in bytes [SIZE-1]
	content      content
	// its deduplication id on a standard queue, from an attribute, which may be none [EXT-30]
	named    Text
	misnamed bool
	// when its work was first sent, as its attributes claim; zero for now [METRIC-24]
	claimedSent int64
	later       *later // what its attributes say of a long delay; nil for nothing

	// Its faults, to be reported in SQS's order. [SEND-13]
	noBody              bool
	attributes, letters *Error
	level               *Error // for a queue that has levels [EXT-49]
}

// dedupAttribute is the message attribute with the deduplication id on standard queues. [EXT-30]
const dedupAttribute = "tenaq.dedup-id"

// traceMax is how long a trace header from the transport may be, in bytes. The transport is not
// part of the request, so an invalid header is left out instead of refused.
const traceMax = 1024

// NewDraft prepares a message for sending. It finds what is wrong with the entry; the send reports
// it, after the lookup of the queue.
func NewDraft(entry Entry) Draft {
	d := Draft{id: entry.ID, delay: entry.Delay, group: entry.Group, dedup: entry.Dedup}
	d.size = int64(len(entry.Body.Value))
	for _, a := range entry.Attributes {
		d.size += int64(len(a.Name) + len(a.Type.Value))
		if row.IsBinary(a.Type.Value) {
			d.size += int64(len(a.Binary))
		} else {
			d.size += int64(len(a.String.Value))
		}
	}
	c := Content{Body: entry.Body.Value, BodyMD5: entry.BodyMD5, Sender: entry.Sender}
	if len(entry.Trace) <= traceMax && illegalCharacter(entry.Trace) == "" {
		c.Trace = entry.Trace
	}
	d.noBody = entry.Body.Value == ""
	if d.attributes = takeAttributes(&c, &entry); d.noBody || d.attributes != nil {
		return d
	}
	if bad := illegalCharacter(entry.Body.Value); bad != "" { // [SEND-2]
		d.letters = errContents(CodeInvalidContents, bad, "message body")
		return d
	}
	d.content = content{head: c.EncodeHead(), body: entry.Body.Value}
	d.content.level, d.level = levelOf(c.Attributes)
	d.claimedSent = firstSentOf(c.Attributes)
	d.later = laterOf(c.Attributes)
	for _, a := range c.Attributes {
		if a.Name == dedupAttribute {
			d.named, d.misnamed = Text{Value: a.String, Set: true}, a.Type != "String"
		}
	}
	if d.group.Set && !d.dedup.Set {
		sum := sha256.Sum256([]byte(entry.Body.Value))
		d.contentKey = hex.EncodeToString(sum[:])
	}
	return d
}

// errContents refuses a character, such as #x1, that is not allowed in a place.
func errContents(code Code, character, place string) *Error {
	return refuse(code, "Invalid binary character '"+character+"' was found in the "+place+
		", the set of allowed characters is "+
		"#x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF].")
}

// illegalCharacter returns the first character of s that XML 1.0 does not have, such as #x1, and ""
// when there is none. Half of a surrogate pair is read as the three bytes that stand for it, and
// any other byte that is not UTF-8 as itself.
//
// It skips eight bytes at a time if all are ASCII and none is below the space, as in most bodies.
func illegalCharacter(s string) string {
	const tops = 0x8080808080808080
	for i := 0; i < len(s); {
		if b := s[i:]; len(b) >= 8 {
			x := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
				uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
			// A byte without its top bit has it in x+0x60 if it is 0x20 or more, and no sum carries
			// into the next byte.
			if x&tops == 0 && (x+0x6060606060606060)&tops == tops {
				i += 8
				continue
			}
		}
		c := s[i]
		if c < utf8.RuneSelf {
			if c < 0x20 && c != '\t' && c != '\n' && c != '\r' {
				return fmt.Sprintf("#x%X", c)
			}
			i++
			continue
		}
		switch r, n := utf8.DecodeRuneInString(s[i:]); {
		case r == utf8.RuneError && n <= 1 && c == 0xED && i+2 < len(s) && s[i+1]>>6 == 2 &&
			s[i+2]>>6 == 2:
			return fmt.Sprintf("#x%X", 0xD000|uint(s[i+1]&0x3F)<<6|uint(s[i+2]&0x3F))
		case r == utf8.RuneError && n <= 1:
			return fmt.Sprintf("#x%X", c)
		case r == 0xFFFE || r == 0xFFFF:
			return fmt.Sprintf("#x%X", r)
		default:
			i += n
		}
	}
	return ""
}

// takeAttributes checks the attributes of an entry and copies them into c.
func takeAttributes(c *Content, entry *Entry) *Error {
	if n := len(entry.Attributes); n > sqslimits.AttributesMax { // [MA-1]
		return invalid("Number of message attributes [" + strconv.Itoa(n) +
			"] exceeds the allowed maximum [10].")
	}
	for i := range entry.Attributes {
		a := &entry.Attributes[i]
		if err := a.check(); err != nil {
			return err
		}
		c.Attributes = append(c.Attributes,
			Attribute{Name: a.Name, Type: a.Type.Value, String: a.String.Value, Binary: a.Binary})
	}
	for i := range entry.System {
		a := &entry.System[i]
		if a.Name != "AWSTraceHeader" { // [MA-19]
			return invalid("Message system attribute name '" + a.Name + "' is invalid.")
		}
		if a.Type.Value != "String" { // [MA-20]
			return invalid("The message system attribute 'AWSTraceHeader' must have the type 'String'.")
		}
		if err := a.checkValue(); err != nil {
			return err
		}
		c.Trace = a.String.Value
	}
	return nil
}

// check refuses an illegal user attribute.
func (a *EntryAttribute) check() *Error {
	name := a.Name
	lower := strings.ToLower(name)
	switch {
	case name == "": // [MA-2]
		return invalid("The request must contain non-empty message (user) attribute names.")
	case utf8.RuneCountInString(name) > 256: // [MA-3]
		return invalid("Message (user) attribute name must be shorter than 256 bytes.")
	case strings.HasPrefix(lower, "aws.") || strings.HasPrefix(lower, "amazon."): // [MA-6]
		return invalid("You can't use message attribute names beginning with 'AWS.' or 'Amazon'. " +
			"These strings are reserved for internal use.")
	case strings.HasPrefix(name, "."): // [MA-5]
		return invalid("Invalid message (user) attribute name '" + name +
			"': must not begin with character '.'.")
	case strings.HasSuffix(name, "."):
		return invalid("Invalid message (user) attribute name '" + name +
			"': must not end with character '.'.")
	case strings.Contains(name, ".."):
		return invalid("Invalid message (user) attribute name '" + name +
			"': must not have successive '.' characters.")
	case !isAttributeName(name): // [MA-4]
		return invalid("Invalid message (user) attribute name '" + name +
			"': it can only contain letters, digits, '_', '-' and '.'.")
	}
	return a.checkValue()
}

func isAttributeName(name string) bool {
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-' && r != '.' ||
			r == utf8.RuneError {
			return false
		}
	}
	return true
}

// checkValue refuses an attribute whose type and value do not go together.
func (a *EntryAttribute) checkValue() *Error {
	the := "The message (user) attribute '" + a.Name + "' "
	kind, _, _ := strings.Cut(a.Type.Value, ".")
	switch {
	case a.HasList: // [MA-18]
		return refuse(CodeUnsupported,
			"Message attribute list values in SendMessage operation are not supported.")
	case a.Type.Value == "": // [MA-10]
		return invalid(the + "must contain a non-empty message attribute type.")
	case len(a.Type.Value) > 256: // [MA-9]
		return invalid("Message (user) attribute type must be shorter than 256 bytes.")
	case kind != "String" && kind != "Number" && kind != "Binary": // [MA-8]
		return invalid("The type of message (user) attribute '" + a.Name + "' is invalid. " +
			"You must use only the following supported type prefixes: Binary, Number, String.")
	case a.String.Set && a.HasBinary: // [MA-17]
		return invalid(the + "must have a single value.")
	case !a.String.Set && !a.HasBinary: // [MA-10]
		return invalid(the + "must contain a non-empty message attribute value.")
	case kind == "Binary" && a.String.Set: // [MA-16]
		return invalid(the + "with type '" + a.Type.Value + "' must use field 'Binary'.")
	case kind != "Binary" && a.HasBinary:
		return invalid(the + "with type '" + a.Type.Value + "' must use field 'String'.")
	case kind == "Binary" && len(a.Binary) == 0 ||
		kind != "Binary" && a.String.Value == "": // [MA-11]
		return invalid("Message (user) attribute '" + a.Name +
			"' must contain a non-empty value of type '" + kind + "'.")
	case kind != "Binary" && illegalCharacter(a.String.Value) != "": // [MA-12]
		return errContents(CodeInvalidParameter, illegalCharacter(a.String.Value),
			"value of message (user) attribute '"+a.Name+"'")
	case kind == "Number" && !isNumber(a.String.Value): // [MA-13]
		return invalid("Can't cast the value of message (user) attribute '" + a.Name +
			"' to a number.")
	}
	return nil
}

// isNumber reports whether s is a decimal number of at most 38 significant digits whose magnitude
// is zero or lies between 1e-128 and 1e126.
func isNumber(s string) bool {
	mantissa, exponent, hasExponent := strings.Cut(strings.ToLower(s), "e")
	exp := 0
	if hasExponent {
		var err error
		if exp, err = strconv.Atoi(exponent); err != nil || len(exponent) > 6 {
			return false
		}
	}
	if mantissa != "" && (mantissa[0] == '-' || mantissa[0] == '+') {
		mantissa = mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return false
	}
	leading := len(digits) - len(strings.TrimLeft(digits, "0"))
	significant := strings.Trim(digits, "0")
	if significant == "" {
		return true
	}
	// The value is 0.significant times ten to the power of magnitude.
	magnitude := len(whole) - leading + exp
	if len(significant) > 38 || magnitude-1 < -128 || magnitude-1 > 126 {
		return false
	}
	return magnitude-1 < 126 || significant == "1"
}
