package cloudwatch

import (
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/smithy-go/encoding/cbor"
	"github.com/cockroachdb/datadriven"

	"tenaq/internal/api/wire"
	"tenaq/internal/observe/alarm"
	"tenaq/internal/observe/monitor"
	"tenaq/internal/observe/series"
)

// TestScripts runs the scripts in testdata. Each begins at midnight of the first day of 2000 with a
// server for each of the three protocols, so that a call has the same effect on all of them. The
// commands:
//
//	call ACTION [brief|names|enabled]
//
// sends the input, an object of JSON, in each protocol: as a form, as JSON, and as CBOR. It prints
// the form, and then of each answer status, content type, query error and body. CBOR is written as
// JSON would be, with 1(...) for times; what is the same as the answer in JSON is not repeated.
// Brief leaves out form and XML; names and enabled leave out all but the names of alarms and the
// next token, or whether their actions are enabled.
//
//	http [hex|gzip]
//
// sends the input as it stands: request line, headers, an empty line, and the body, to one server.
// It prints the answer.
//
//	state ALARM STATE / advance DURATION / put NAMESPACE METRIC DIMENSION=VALUE NUMBER...
//
// let an alarm come into a state, time pass, and a metric have values, one a minute, of which the
// last is in the minute before.
//
// In input <x*1000> stands for a thousand letters x, and <now-5m> for a time.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("scripts: %v, %v", paths, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				worlds := []*world{newWorld(t), newWorld(t), newWorld(t)}
				datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string { return run(t, d, worlds) })
			})
		})
	}
}

// A world is a handler and what is behind it.
type world struct {
	*Handler
	*monitor.Monitor
}

func newWorld(t testing.TB) *world {
	m, err := monitor.New(monitor.Config{
		Keeper:  monitor.File(t.TempDir()),
		Actions: map[string]monitor.Action{"team": {Log: true}, "other": {Log: true}},
		Logger:  slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	return &world{New(Config{
		Monitor: m,
		Door:    open,
		Logger:  slog.New(slog.NewTextHandler(io.Discard, nil)),
	}), m}
}

func run(t *testing.T, d *datadriven.TestData, worlds []*world) string {
	input := expand(d.Input)
	switch d.Cmd {
	case "call":
		return callAll(t, d, worlds, input)
	case "http":
		return raw(t, d, worlds[0], input)
	case "advance":
		length, err := time.ParseDuration(d.CmdArgs[0].Key)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		time.Sleep(length)
		return ""
	case "state":
		for _, w := range worlds {
			if err := w.SetState(d.CmdArgs[0].Key, alarm.State(d.CmdArgs[1].Key), "it was said", ""); err != nil {
				d.Fatalf(t, "%v", err)
			}
		}
		return ""
	case "put":
		m := series.Metric{Namespace: d.CmdArgs[0].Key, Name: d.CmdArgs[1].Key}
		m.Dimensions = []series.Dimension{{Name: d.CmdArgs[2].Key, Value: d.CmdArgs[2].Vals[0]}}
		for i, arg := range d.CmdArgs[3:] {
			v, err := strconv.ParseFloat(arg.Key, 64)
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			for _, w := range worlds {
				w.Series().Put(m, w.Now().Add(time.Duration(i-len(d.CmdArgs)+3)*time.Minute).UnixMilli(), series.One(v), "Count")
			}
		}
		return ""
	}
	d.Fatalf(t, "unknown command %q", d.Cmd)
	return ""
}

// callAll does the command call.
func callAll(t *testing.T, d *datadriven.TestData, worlds []*world, input string) string {
	action := d.CmdArgs[0].Key
	decoder := json.NewDecoder(strings.NewReader(input))
	decoder.UseNumber()
	var members map[string]any
	if err := decoder.Decode(&members); err != nil {
		d.Fatalf(t, "%v", err)
	}
	form := []string{"Action=" + action, "Version=" + apiVersion}
	addForm(&form, "", members)
	headers := []http.Header{
		{"Content-Type": {"application/x-www-form-urlencoded"}},
		{"Content-Type": {wire.JSONType[0]}, "X-Amz-Target": {targetPrefix + action}},
		{"Content-Type": {wire.CBORType[0]}, "Smithy-Protocol": {"rpc-v2-cbor"}},
	}
	paths := []string{"/", "/", pathPrefix + action}
	bodies := [][]byte{[]byte(strings.Join(form, "&")), []byte(input), cbor.Encode(asCBOR("", members))}
	var answers [3]string
	for i, w := range worlds {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, paths[i], bytes.NewReader(bodies[i]))
		r.Header = headers[i]
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, r)
		answers[i] = show(t, rec)
	}
	var b strings.Builder
	for arg, pattern := range picks {
		if d.HasArg(arg) {
			for i, answer := range answers[1:] {
				found := append([]string{[]string{"JSON:", "CBOR:"}[i]}, pattern.FindAllString(answer, -1)...)
				b.WriteString(strings.Join(found, " ") + "\n")
			}
			return b.String()
		}
	}
	if !d.HasArg("brief") {
		fmt.Fprintf(&b, "%s\n%s", strings.Join(form, "&"), answers[0])
	}
	b.WriteString(answers[1])
	same := func(s string) string {
		s = timePattern.ReplaceAllString(s, "$1")
		return strings.ReplaceAll(strings.ReplaceAll(s, " "+wire.CBORType[0], ""), " "+wire.JSONType[0], "")
	}
	switch {
	case same(answers[2]) != same(answers[1]):
		b.WriteString(answers[2])
	case timePattern.MatchString(answers[2]):
		fmt.Fprintf(&b, "CBOR: the same, %d of its numbers are times\n", len(timePattern.FindAllString(answers[2], -1)))
	default:
		b.WriteString("CBOR: the same\n")
	}
	return b.String()
}

var (
	timePattern = regexp.MustCompile(`1\(([-0-9.]+)\)`)
	picks       = map[string]*regexp.Regexp{
		"names":   regexp.MustCompile(`"(AlarmName|NextToken)":"[^"]*"`),
		"enabled": regexp.MustCompile(`"ActionsEnabled":[a-z]+`),
	}
	idsPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`)
)

// exact returns the values of a header that is spelt just so: some clients look at the letters.
func exact(h http.Header, name string) []string { return h[name] }

// show writes an answer down.
func show(t *testing.T, rec *httptest.ResponseRecorder) string {
	h := rec.Header()
	id := exact(h, "x-amzn-RequestId")
	if len(id) != 1 || !idsPattern.MatchString(id[0]) {
		t.Errorf("request id %q", id)
	}
	body := rec.Body.String()
	if h.Get("Content-Length") != strconv.Itoa(len(body)) {
		t.Errorf("Content-Length %s for %d bytes", h.Get("Content-Length"), len(body))
	}
	kind := h.Get("Content-Type")
	if kind == wire.CBORType[0] || kind == "" {
		if got := exact(h, "smithy-protocol"); len(got) != 1 || got[0] != "rpc-v2-cbor" {
			t.Errorf("smithy-protocol %q", got)
		}
	}
	if kind == wire.CBORType[0] {
		v, err := cbor.Decode([]byte(body))
		if err != nil {
			t.Errorf("%v in %x", err, body)
		}
		body = diagnose(v)
	} else if kind == wire.JSONType[0] {
		// In order, so that it can be compared.
		var v any
		d := json.NewDecoder(strings.NewReader(body))
		d.UseNumber()
		if err := d.Decode(&v); err != nil {
			t.Errorf("%v in %s", err, body)
		}
		body = diagnose(v)
	} else {
		body = idsPattern.ReplaceAllString(body, "<id>")
	}
	line := fmt.Sprint(rec.Code)
	for _, part := range []string{kind, strings.Join(exact(h, "x-amzn-query-error"), "")} {
		if part != "" {
			line += " " + part
		}
	}
	if body == "" {
		return line + "\n"
	}
	return line + "\n" + body + "\n"
}

// raw does the command http.
func raw(t *testing.T, d *datadriven.TestData, w *world, input string) string {
	head, body, _ := strings.Cut(input, "\n\n")
	lines := strings.Split(head, "\n")
	method, path, _ := strings.Cut(lines[0], " ")
	b := []byte(body)
	if d.HasArg("hex") {
		var err error
		if b, err = hex.DecodeString(strings.Join(strings.Fields(body), "")); err != nil {
			d.Fatalf(t, "%v", err)
		}
	}
	if d.HasArg("gzip") {
		var zipped bytes.Buffer
		z := gzip.NewWriter(&zipped)
		z.Write(b)
		z.Close()
		b = zipped.Bytes()
	}
	r := httptest.NewRequestWithContext(t.Context(), method, path, bytes.NewReader(b))
	for _, line := range lines[1:] {
		name, v, _ := strings.Cut(line, ": ")
		r.Header.Set(name, v)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return show(t, rec)
}

// addForm writes an object of JSON as the parameters of a form.
func addForm(form *[]string, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			addForm(form, strings.TrimPrefix(path+"."+name, "."), v[name])
		}
	case []any:
		if len(v) == 0 {
			*form = append(*form, path+"=")
		}
		for i, e := range v {
			addForm(form, fmt.Sprintf("%s.member.%d", path, i+1), e)
		}
	case nil:
	default:
		s := fmt.Sprint(v)
		if n, ok := v.(json.Number); ok && isTime(path) {
			seconds, _ := n.Float64()
			s = time.UnixMilli(int64(seconds * 1000)).UTC().Format(time.RFC3339Nano)
		}
		*form = append(*form, path+"="+url.QueryEscape(s))
	}
}

func isTime(path string) bool {
	return strings.HasSuffix(path, "Time") || strings.HasSuffix(path, "Timestamp") || strings.HasSuffix(path, "Date")
}

func asCBOR(path string, v any) cbor.Value {
	switch v := v.(type) {
	case map[string]any:
		m := cbor.Map{}
		for name, e := range v {
			m[name] = asCBOR(name, e)
		}
		return m
	case []any:
		l := cbor.List{}
		for _, e := range v {
			l = append(l, asCBOR("", e))
		}
		return l
	case string:
		return cbor.String(v)
	case bool:
		return cbor.Bool(v)
	case json.Number:
		f, _ := v.Float64()
		i, err := v.Int64()
		switch {
		case isTime(path):
			return &cbor.Tag{ID: 1, Value: cbor.Float64(f)}
		case err == nil && i < 0:
			return cbor.NegInt(-i)
		case err == nil:
			return cbor.Uint(i)
		}
		return cbor.Float64(f)
	}
	return &cbor.Nil{}
}

// diagnose writes a body down, its members in order.
func diagnose(v any) string {
	object := func(names []string, member func(name string) any) string {
		var parts []string
		for _, name := range names {
			parts = append(parts, strconv.Quote(name)+":"+diagnose(member(name)))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	elements := func(n int, at func(i int) any) string {
		var parts []string
		for i := range n {
			parts = append(parts, diagnose(at(i)))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	switch v := v.(type) {
	case map[string]any:
		return object(slices.Sorted(maps.Keys(v)), func(name string) any { return v[name] })
	case cbor.Map:
		return object(slices.Sorted(maps.Keys(v)), func(name string) any { return v[name] })
	case []any:
		return elements(len(v), func(i int) any { return v[i] })
	case cbor.List:
		return elements(len(v), func(i int) any { return v[i] })
	case string, cbor.String:
		b, _ := json.Marshal(v)
		return string(b)
	case cbor.Uint:
		return strconv.FormatUint(uint64(v), 10)
	case cbor.NegInt:
		return "-" + strconv.FormatUint(uint64(v), 10)
	case cbor.Float64:
		return wire.FormatNumber(float64(v))
	case *cbor.Tag:
		seconds := float64(v.Value.(cbor.Float64))
		return fmt.Sprintf("%d(%s)", v.ID, strconv.FormatFloat(seconds, 'f', -1, 64))
	}
	return fmt.Sprint(v)
}

var (
	repeatPattern = regexp.MustCompile(`<([^<>]+)\*([0-9]+)>`)
	nowPattern    = regexp.MustCompile(`<now([-+][0-9a-z]+)?>`)
)

// expand writes out repetitions and times.
func expand(s string) string {
	s = nowPattern.ReplaceAllStringFunc(s, func(m string) string {
		offset, _ := time.ParseDuration(strings.TrimPrefix(nowPattern.FindStringSubmatch(m)[1], "+"))
		return strconv.FormatInt(time.Now().Add(offset).Unix(), 10)
	})
	return repeatPattern.ReplaceAllStringFunc(s, func(m string) string {
		part := repeatPattern.FindStringSubmatch(m)
		n, _ := strconv.Atoi(part[2])
		return strings.TrimSuffix(strings.Repeat(part[1], n), ",")
	})
}
