package cloudwatch

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"runtime"
	"testing"

	"github.com/aws/smithy-go/encoding/cbor"

	"tenaq/internal/api/wire"
)

// decodeAll reads a request as each operation would, and returns what is made of it.
func decodeAll(t *testing.T, v wire.Value) (all []any) {
	for _, op := range operations { // the order does not matter
		in := reflect.New(op.in)
		err := binder{op.fit}.structure(in.Elem(), v, "")
		if err != nil {
			refusal := refusalOf(err)
			if refusal.Code == InternalServiceError || refusal.info().status == 0 || refusal.Message == "" {
				t.Errorf("%s: %v, want an error for the caller", op.name, err)
			}
			continue
		}
		all = append(all, in.Interface())
	}
	return all
}

// A form never does harm, and neither does anything below.
func FuzzQuery(f *testing.F) {
	f.Add("Action=DescribeAlarms&Version=2010-08-01&AlarmNames.member.1=a&AlarmNames.member.10=b")
	f.Add("AlarmName=a&Dimensions.member.1.Name=Q&Dimensions.member.1.Value=%2F&Period=60&Threshold=1e3&ActionsEnabled=false")
	f.Add("StartTime=2026-01-31T12:00:00Z&EndTime=1e9&MetricDataQueries.member.1.Id=m&MetricDataQueries.member.1.MetricStat.Period=60")
	f.Add("AlarmNames=&Tags.member.18446744073709551615.Key=&&=&a=%")
	f.Fuzz(func(t *testing.T, form string) {
		if n, err := wire.ReadQuery(form); err == nil {
			decodeAll(t, n)
		}
	})
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"AlarmNames":["a"],"MaxRecords":1,"AlarmName":"a","Threshold":-1.5e3,"ActionsEnabled":true}`))
	f.Add([]byte(`{"Namespace":"N","MetricData":[{"MetricName":"M","Value":"NaN","Timestamp":1.5e9,"Values":[1,2]}]}`))
	f.Add([]byte(`[[[[{}]]]]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if v, err := wire.ReadJSON(body); err == nil {
			decodeAll(t, v)
		}
	})
}

func FuzzCBOR(f *testing.F) {
	f.Add(cbor.Encode(cbor.Map{"AlarmNames": cbor.List{cbor.String("a")}, "MaxRecords": cbor.Uint(1), "Threshold": cbor.Float64(0.5)}))
	f.Add(cbor.Encode(cbor.Map{"StartTime": &cbor.Tag{ID: 1, Value: cbor.Float64(1e9)}, "EndTime": &cbor.Tag{ID: 1, Value: cbor.NegInt(5)}, "Namespace": &cbor.Nil{}}))
	f.Add([]byte{0xbf, 0x61, 'a', 0x9f, 0x7f, 0x61, 'b', 0xff, 0xf9, 0x3c, 0, 0xff, 0xff})
	f.Add([]byte{0x9b, 0x10, 0, 0, 0, 0, 0, 0, 0})
	f.Add(bytes.Repeat([]byte{0x81}, 200))
	f.Fuzz(func(t *testing.T, body []byte) {
		v, err := wire.ReadCBOR(body)
		if err != nil {
			return
		}
		decodeAll(t, v)
		if len(body) == 0 {
			return
		}
		// Encoded output can be decoded, and stays the same.
		first, err := cbor.Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		again, err := cbor.Decode(cbor.Encode(first))
		if err != nil {
			t.Fatalf("%v after it was written again", err)
		}
		if got, want := cbor.Encode(again), cbor.Encode(first); len(got) != len(want) {
			t.Errorf("%d bytes, want %d", len(got), len(want))
		}
	})
}

// Every input gets an answer of the protocol, and that answer can be decoded.
func FuzzRequest(f *testing.F) {

	for _, op := range []string{"PutMetricAlarm", "PutMetricData", "GetMetricData", "DescribeAlarms"} {
		f.Add(op, 0, []byte("AlarmName=a&Namespace=N&MetricName=M&Period=60&Statistic=Sum&EvaluationPeriods=1&Threshold=0&ComparisonOperator=GreaterThanThreshold"))
		f.Add(op, 1, []byte(`{"Namespace":"N","MetricData":[{"MetricName":"M","Value":1}],"StartTime":0,"EndTime":60,"MetricDataQueries":[]}`))
		f.Add(op, 2, []byte{0xa0})
	}
	f.Fuzz(func(t *testing.T, action string, which int, body []byte) {
		w := newWorld(t) // an input does what it does again
		var r *http.Request
		switch which {
		case 0:
			r = httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(append([]byte("Version=2010-08-01&Action="+action+"&"), body...)))
		case 1:
			r = httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
			r.Header["X-Amz-Target"] = []string{targetPrefix + action}
		default:
			r = httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
			r.URL.Path = pathPrefix + action
			r.Header.Set("smithy-protocol", "rpc-v2-cbor")
		}
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, r)
		if rec.Code != 200 && rec.Code/100 != 4 {
			t.Errorf("status %d: %s", rec.Code, rec.Body)
		}
		switch rec.Header().Get("Content-Type") {
		case wire.JSONType[0]:
			if !json.Valid(rec.Body.Bytes()) {
				t.Errorf("not JSON: %s", rec.Body)
			}
		case wire.CBORType[0]:
			if _, err := cbor.Decode(rec.Body.Bytes()); err != nil {
				t.Errorf("%v in %x", err, rec.Body)
			}
		}
	})
}

// The largest bodies that say the most with the least bytes take a bounded multiple of their size.
func TestMemory(t *testing.T) {
	fill := func(head, each, tail string) []byte {
		b := []byte(head)
		for len(b)+len(each)+len(tail) <= bodyMax {
			b = append(b, each...)
		}
		return append(b, tail...)
	}
	numbered := func() (b []byte) {
		for i := 0; len(b) < bodyMax-16; i++ {
			b = fmt.Appendf(b, "%x&", i)
		}
		return b
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(make([]byte, 20<<20))
	z.Close()
	readForm := func(b []byte) (wire.Value, error) { return wire.ReadQuery(string(b)) }
	for name, test := range map[string]struct {
		body []byte
		read func([]byte) (wire.Value, error)
		most uint64 // MiB
	}{
		"maps":           {fill("\x9f", "\xa0", "\xff"), wire.ReadCBOR, 1},
		"lists":          {fill("\x9f", "\x80", "\xff"), wire.ReadCBOR, 1},
		"keys":           {fill("\xbf", "\x61a\xa0", "\xff"), wire.ReadCBOR, 1},
		"allowed":        {append(bytes.Repeat([]byte("\xa0"), 150_000-2), 0xff), func(b []byte) (wire.Value, error) { return wire.ReadCBOR(append([]byte{0x9f}, b...)) }, 64},
		"claims":         {[]byte{0x9b, 0x0f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0}, wire.ReadCBOR, 1},
		"claims of keys": {[]byte{0xbb, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x60}, wire.ReadCBOR, 1},
		"objects":        {fill(`{"MetricData":[{}`, ",{}", "]}"), wire.ReadJSON, 64},
		"arrays":         {fill(`{"MetricData":[[]`, ",[]", "]}"), wire.ReadJSON, 64},
		"deep":           {fill("", "[", ""), wire.ReadJSON, 1},
		"parameters":     {numbered(), readForm, 16},
		"parts":          {fill("", "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a&", ""), readForm, 16},
		"bomb":           {zipped.Bytes(), func(b []byte) (wire.Value, error) { _, err := inflate(b); return nil, err }, 7},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			v, err := test.read(test.body)
			if err == nil {
				decodeAll(t, v)
			}
			runtime.ReadMemStats(&after)
			// All that was asked for, also what was given back at once.
			if took := after.TotalAlloc - before.TotalAlloc; took > test.most<<20 {
				t.Errorf("%.1f MiB for a body of %d bytes, want at most %d", float64(took)/(1<<20), len(test.body), test.most)
			} else {
				t.Logf("%.1f MiB, %v", float64(took)/(1<<20), err)
			}
		})
	}
}

// A number in an answer is the number that was meant, in all that a client may read.
func TestNumbers(t *testing.T) {
	for _, v := range []float64{0, 1, -2.5, 1e15, 1e16, 1e-9, 123456789012345, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1)} {
		got, err := wire.ParseNumber(wire.FormatNumber(v))
		if err != nil || got != v {
			t.Errorf("%v: got %v, %v from %s", v, got, err, wire.FormatNumber(v))
		}
		if b := wire.AppendJSON(nil, v); !json.Valid(b) {
			t.Errorf("%v: %s is not JSON", v, b)
		}
	}
	if v, err := wire.ParseNumber(wire.FormatNumber(math.NaN())); err != nil || !math.IsNaN(v) {
		t.Errorf("NaN: got %v, %v", v, err)
	}
	for _, s := range []string{"", "0x1p3", "1_000", "inf", "nan", "infinity", "1e999", "١"} {
		if v, err := wire.ParseNumber(s); err == nil {
			t.Errorf("%q: got %v, want an error", s, v)
		}
	}
}
