package offload

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A pointer says where a body is.
type pointer struct {
	bucket string
	key    string
}

// The first element of a pointer is the name of a Java class of the extended client.
const (
	class       = "software.amazon.payloadoffloading.PayloadS3Pointer"
	legacyClass = "com.amazon.sqs.javamessaging.MessageS3Pointer"
)

// The members of the second element.
const (
	memberBucket = "s3BucketName"
	memberKey    = "s3Key"
)

// String returns the same bytes as the Java library.
func (p pointer) String() string {
	return `["` + class + `",{"` + memberBucket + `":` + quote(p.bucket) + `,"` + memberKey + `":` + quote(p.key) + `}]`
}

func quote(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // cannot fail for a string
	return strings.TrimSuffix(b.String(), "\n")
}

// name describes the target of the pointer in errors.
func (p pointer) name() string { return fmt.Sprintf("%q in the bucket %q", p.key, p.bucket) }

// under reports whether the pointer leads to a key with a prefix.
func (p pointer) under(prefix string) bool { return strings.HasPrefix(p.key, prefix) }

// Limits in bytes. That of buckets is the oldest one of S3. A pointer may have every byte escaped.
const (
	keyMax     = 1024
	bucketMax  = 255
	pointerMax = 16 << 10
)

// parsePointer reads a pointer of either class, or the object alone, with its members in any order,
// any whitespace, and further members.
func parsePointer(body string) (p pointer, err error) {
	if len(body) > pointerMax || !utf8.ValidString(body) {
		return p, fmt.Errorf("the attributes say that the body is a pointer, but it has %d bytes or is not UTF-8", len(body))
	}
	object := json.RawMessage(body)
	var parts []json.RawMessage
	if json.Unmarshal(object, &parts) == nil {
		var is string
		if len(parts) != 2 || json.Unmarshal(parts[0], &is) != nil {
			return p, errors.New("the body is an array, but not of a class and an object")
		}
		if is != class && is != legacyClass {
			return p, fmt.Errorf("the body is a pointer of the unknown class %q", is)
		}
		object = parts[1]
	}
	// Not a struct, because its members would match in any case, and other libraries would read
	// another member then.
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return p, fmt.Errorf("the attributes say that the body is a pointer, but it is not: %w",
			err)
	}
	for name, to := range map[string]*string{memberBucket: &p.bucket, memberKey: &p.key} {
		if json.Unmarshal(members[name], to) != nil {
			return p, fmt.Errorf("the pointer has no %s", name)
		}
	}
	if err := checkBucket(p.bucket); err != nil {
		return p, err
	}
	return p, checkKey(p.key)
}

// objectKey returns the key of a body. It includes a hash, so a key never stands for two bodies,
// and another message about the same work does not change one that was sent.
func objectKey(prefix, key, body string) string {
	sum := sha256.Sum256([]byte(body))
	return prefix + key + "." + hex.EncodeToString(sum[:16])
}

// markers enclose the bucket and the key in the receipt handles that the Java library makes. A name
// with a marker in it would make such a handle ambiguous.
var markers = []string{"-..s3BucketName..-", "-..s3Key..-"}

func checkBucket(bucket string) error {
	if bucket == "" || len(bucket) > bucketMax {
		return fmt.Errorf("the name of a bucket has %d bytes: it must have 1 to %d", len(bucket),
			bucketMax)
	}
	return checkName("bucket", bucket)
}

// checkKey refuses keys that S3 or SQS refuses, and keys that a proxy in front of S3 could read as
// a path into another bucket.
func checkKey(key string) error {
	if key == "" || len(key) > keyMax {
		return fmt.Errorf("a key of %d bytes: it must have 1 to %d, use a hash of it", len(key),
			keyMax)
	}
	for part := range strings.FieldsFuncSeq(key, func(r rune) bool {
		return r == '/' || r == '\\'
	}) {
		if part == "." || part == ".." {
			return fmt.Errorf("the key %q has the element %q", key, part)
		}
	}
	return checkName("key", key)
}

func checkName(what, name string) error {
	switch {
	case !utf8.ValidString(name):
		return fmt.Errorf("the %s %q is not UTF-8", what, name)
	case strings.ContainsFunc(name, func(r rune) bool {
		return unicode.IsControl(r) || r == 0xFFFE || r == 0xFFFF
	}):
		return fmt.Errorf("the %s %q has a control character", what, name)
	case slices.ContainsFunc(markers, func(m string) bool { return strings.Contains(name, m) }):
		return fmt.Errorf("the %s %q contains one of %q, which the extended client libraries reserve", what, name, markers)
	}
	return nil
}
