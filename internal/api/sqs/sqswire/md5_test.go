package sqswire

import (
	"slices"
	"testing"
)

func text(name, dataType, value string) MessageAttribute {
	return MessageAttribute{Name: name, DataType: Some(dataType), StringValue: Some(value)}
}

// The sums are those that SQS answers. [MD5-2] [MD5-3] [MD5-4] [MD5-8]
func TestMD5OfAttributes(t *testing.T) {
	help, hello, general := text("Help.Me", "String", "Me"), text("Hello", "String", "There"), text("General", "String", "Kenobi")
	tests := []struct {
		attrs MessageAttributes
		want  string
	}{
		{nil, ""},
		{MessageAttributes{}, ""},
		{MessageAttributes{text("k", "String", "x")}, "a45daa70926828a2f0a1db3418e6feb4"},
		{MessageAttributes{text("Foo", "String", "Bar")}, "ae7155c6026991b6d54b11589678bf9c"},
		{MessageAttributes{text("MyAttribute", "String", "foobar")}, "adb59cd4678ea5a855436b949cd07ab6"},
		{MessageAttributes{help, hello, general}, "4c360f3fdafd970e05fae2f149d997f5"},
		{MessageAttributes{general, hello, help}, "4c360f3fdafd970e05fae2f149d997f5"},
		{MessageAttributes{hello, general}, "fca026605781cb4126a1e9044df24232"},
		{MessageAttributes{hello, help}, "83fee93c1bcd8b9a5a923ffacdc636c7"},
		{MessageAttributes{hello}, "a311262e065454b75da111d535b8dacd"},
		{MessageAttributes{text("timestamp", "Number", "1493147359900")}, "235c5c510d26fb653d073faed50ae77c"},
		{MessageAttributes{text("UserId", "Number.bigint", "1234567890123456789012")}, "797ab158d73dcb5242dedc4412c8e855"},
		{
			MessageAttributes{{Name: "attr1", DataType: Some("Binary"),
				BinaryValue: []byte("traceparent\x1e00-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01")}},
			"8cbe4db156db8a94db8b801b7addb984",
		},
		{
			MessageAttributes{text("AWSTraceHeader", "String",
				"Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1")},
			"5ae4d5d7636402d80f4eb6d213245a88",
		},
	}
	for _, test := range tests {
		order := slices.Clone(test.attrs)
		if got := MD5OfAttributes(test.attrs); got != test.want {
			t.Errorf("%+v: got %s, want %s", test.attrs, got, test.want)
		}
		if !slices.EqualFunc(test.attrs, order, func(a, b MessageAttribute) bool { return a.Name == b.Name }) {
			t.Errorf("the order of %+v became %+v", order, test.attrs)
		}
	}
}
