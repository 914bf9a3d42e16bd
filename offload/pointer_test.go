package offload

import (
	"encoding/json"
	"strings"
	"testing"
)

const someKey = "cc562f4d-c6f3-4b0c-bf29-007a902c391f"

// Pointers are byte for byte those of the extended client libraries, and pointers of all their
// versions can be read. The vectors are made as in the tests of these libraries: the one for Java
// writes no spaces, the one for Python does, both began with another class, and some ports omit the
// class.
func TestCompatibility(t *testing.T) {
	want := pointer{bucket: "test-bucket", key: someKey}
	if got, want := want.String(), `["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"test-bucket","s3Key":"`+someKey+`"}]`; got != want {
		t.Errorf("wrote %s\nwant  %s", got, want)
	}
	if got, want := (pointer{"b", "<k>&ä/\"\\"}).String(), `["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"b","s3Key":"<k>&ä/\"\\"}]`; got != want {
		t.Errorf("wrote %s\nwant  %s", got, want)
	}
	for name, body := range map[string]string{
		"Java 2":             `["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"test-bucket","s3Key":"` + someKey + `"}]`,
		"Java 1":             `["com.amazon.sqs.javamessaging.MessageS3Pointer",{"s3BucketName":"test-bucket","s3Key":"` + someKey + `"}]`,
		"Python":             `["software.amazon.payloadoffloading.PayloadS3Pointer", {"s3BucketName": "test-bucket", "s3Key": "` + someKey + `"}]`,
		"Python, legacy":     `["com.amazon.sqs.javamessaging.MessageS3Pointer", {"s3BucketName": "test-bucket", "s3Key": "` + someKey + `"}]`,
		"without class":      `{"s3BucketName":"test-bucket","s3Key":"` + someKey + `"}`,
		"other order":        `["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3Key":"` + someKey + `","s3BucketName":"test-bucket"}]`,
		"lines":              "\n [\n\t\"software.amazon.payloadoffloading.PayloadS3Pointer\",\r\n {\"s3Key\" : \"" + someKey + "\",\n\"s3BucketName\":\"test-bucket\"} ]\n",
		"escapes":            `["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"test\u002dbucket","s3\u004bey":"` + someKey + `"}]`,
		"more members":       `["software.amazon.payloadoffloading.PayloadS3Pointer",{"version":{"a":[1]},"s3BucketName":"test-bucket","s3Key":"` + someKey + `","S3KEY":"x"}]`,
		"the last one holds": `["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"x","s3Key":"x","s3BucketName":"test-bucket","s3Key":"` + someKey + `"}]`,
	} {
		if got, err := parsePointer(body); err != nil || got != want {
			t.Errorf("%s: got %+v, error %v", name, got, err)
		}
	}
}

func TestNoPointer(t *testing.T) {
	at := func(bucket, key string) string {
		b, _ := json.Marshal(bucket)
		k, _ := json.Marshal(key)
		return `["` + class + `",{"s3BucketName":` + string(b) + `,"s3Key":` + string(k) + `}]`
	}
	for name, body := range map[string]string{
		"nothing":             "",
		"text":                "hello",
		"null":                "null",
		"number":              "1",
		"empty array":         "[]",
		"empty object":        "{}",
		"placeholders":        `{"placeholder": "", "placeholder2": "", "placeholder3":[]}`,
		"class alone":         `["` + class + `"]`,
		"three elements":      `["` + class + `",{"s3BucketName":"b","s3Key":"k"},1]`,
		"other class":         `["java.lang.Runtime",{"s3BucketName":"b","s3Key":"k"}]`,
		"array of an array":   `["` + class + `",["b","k"]]`,
		"two pointers":        at("b", "k") + at("b", "k"),
		"no key":              `["` + class + `",{"s3BucketName":"b"}]`,
		"key that is null":    `["` + class + `",{"s3BucketName":"b","s3Key":null}]`,
		"key that is a list":  `["` + class + `",{"s3BucketName":"b","s3Key":["k"]}]`,
		"members' case":       `["` + class + `",{"S3BucketName":"b","S3Key":"k"}]`,
		"empty key":           at("b", ""),
		"empty bucket":        at("", "k"),
		"long key":            at("b", strings.Repeat("k", keyMax+1)),
		"long bucket":         at(strings.Repeat("b", bucketMax+1), "k"),
		"long":                at("b", "k") + strings.Repeat(" ", pointerMax),
		"path out":            at("b", "../other/secret"),
		"path out, in it":     at("b", "a/../../other/secret"),
		"path out, at end":    at("b", "a/.."),
		"path out, backwards": at("b", `..\other`),
		"path to itself":      at("b", "./k"),
		"zero byte":           at("b", "a\x00"),
		"line end":            at("b", "a\r\nHost: x"),
		"not UTF-8":           `["` + class + `",{"s3BucketName":"b","s3Key":"` + "\xff" + `"}]`,
		"marker in the key":   at("b", "a-..s3Key..-b"),
		"marker in a bucket":  at("-..s3BucketName..-", "k"),
	} {
		if got, err := parsePointer(body); err == nil {
			t.Errorf("%s: %q was read as %+v", name, body, got)
		}
	}
}

// A text that is read as a pointer names a permitted place, and is the same pointer when it is
// written.
func FuzzParsePointer(f *testing.F) {
	f.Add(pointer{"b", "k"}.String())
	f.Add(pointer{"b", "<k>&\u2028\"\\/ä"}.String())
	f.Add(`["` + legacyClass + `", {"s3BucketName": "b", "s3Key": "a/b"}]`)
	f.Add(`{"s3Key":"\ud800","s3BucketName":"b","s3Key":"..\\x"}`)
	f.Fuzz(func(t *testing.T, body string) {
		p, err := parsePointer(body)
		if err != nil {
			return
		}
		if err := checkKey(p.key); err != nil {
			t.Errorf("%q leads to %q: %v", body, p.key, err)
		}
		again, err := parsePointer(p.String())
		if err != nil || again != p {
			t.Errorf("%q became %s and then %+v (error %v)", body, p, again, err)
		}
	})
}
