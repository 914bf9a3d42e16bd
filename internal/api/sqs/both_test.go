package sqs

import (
	"errors"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cockroachdb/datadriven"

	"tenaq/internal/api/sqs/sqswire"
	"tenaq/internal/api/sqs/sqswire/wiretest"
)

// A reply is what a server answered.
type reply struct {
	status int
	query  string // the header x-amzn-query-error
	again  string // the header Tenaq-Retried
	body   string
	err    error
}

func (r reply) String() string {
	if r.err != nil {
		return r.err.Error() + "\n"
	}
	head := strings.TrimSpace(strconv.Itoa(r.status) + " " + r.query)
	if r.again != "" {
		head += " " + retriedHeader + ": " + r.again
	}
	return head + "\n" + r.body + "\n"
}

// A pair is the answers to one request in both protocols. Form is empty when there was no second
// request.
type pair struct {
	action    string
	json, xml reply
	form      string
}

func (p pair) String() string { return p.json.String() }

func (p pair) both() string {
	form := strings.ReplaceAll(contract(p.form), "&", "\n&")
	return p.json.String() + "Query " + form + "\n" + strings.Replace(p.xml.String(), "><", ">\n<", 1)
}

// ask makes the request of a call, in both protocols.
func (s *script) ask(t *testing.T, d *datadriven.TestData, body string) pair {
	var trace, path, invocation, attempt string
	var headers []string
	if d.MaybeScanArgs(t, "trace", &trace) {
		headers = []string{"X-Amzn-Trace-Id", trace}
	}
	if d.MaybeScanArgs(t, "invocation", &invocation) {
		headers = append(headers, invocationHeader, expand(invocation))
	}
	if d.MaybeScanArgs(t, "attempt", &attempt) {
		headers = append(headers, attemptHeader, "attempt="+attempt+"; max=3")
	}
	d.MaybeScanArgs(t, "path", &path)
	conns := [2]net.Conn{s.listener.dial(), s.twin.listener.dial()}
	defer conns[0].Close()
	defer conns[1].Close()
	return s.settle(t, s.askOn(t, conns, d.CmdArgs[0].Key, path, body, headers...))
}

// settle hides what is random in two answers, and checks that they say the same. Names are given in
// the order in which answers are looked at, so that they are the same in every run.
func (s *script) settle(t *testing.T, p pair) pair {
	t.Helper()
	p.json.body, p.xml.body = s.hide(p.json.body), s.twin.hide(p.xml.body)
	if p.form != "" && p.json.err == nil {
		sameReply(t, p)
	}
	return p
}

// askOn makes a request on two connections at the same time, one to each world.
func (s *script) askOn(t *testing.T, conns [2]net.Conn, action, path, body string, headers ...string) (p pair) {
	t.Helper()
	masked, _ := formOf(action, path, body)
	body, twinBody := s.show(body), s.twin.show(body)
	form, ok := formOf(action, path, twinBody)
	done := make(chan reply, 1)
	go func() {
		if ok {
			at := path
			if action == "CreateQueue" || action == "ListQueues" {
				at = "" // which have no place on the path of a queue [XML-12]
			}
			done <- s.send(t, conns[1], queryRequest(at, form, headers...))
		} else {
			done <- s.send(t, conns[1], jsonRequest(action, path, twinBody, headers...))
		}
	}()
	p.action = action
	p.json = s.send(t, conns[0], jsonRequest(action, path, body, headers...))
	p.xml = <-done
	if ok {
		p.form = masked
	}
	return p
}

// jsonRequest and queryRequest write a request to a path, the root when that is empty.
func jsonRequest(action, path, body string, headers ...string) string {
	return atPath(request("AmazonSQS."+action, body, headers...), path)
}

func queryRequest(path, form string, headers ...string) string {
	headers = append([]string{"X-Amz-Target", "", "Content-Type", "application/x-www-form-urlencoded; charset=utf-8"}, headers...)
	return atPath(request("", form, headers...), path)
}

func atPath(request, path string) string {
	if path == "" {
		return request
	}
	return strings.Replace(request, "POST / ", "POST "+path+" ", 1)
}

// send makes a request on a connection.
func (s *script) send(t *testing.T, conn net.Conn, request string) reply {
	_, resp, body, err := exchange(conn, http.MethodPost, sign(t, s.as, request))
	if err != nil {
		return reply{err: err}
	}
	checkHeaders(t, resp, body, &s.ids)
	body = requestIDPattern.ReplaceAllString(body, "${1}<id>")
	return reply{status: resp.StatusCode, query: resp.Header.Get("x-amzn-query-error"),
		again: resp.Header.Get(retriedHeader), body: body}
}

// formOf says a request in the Query protocol. ok is false when that has no words for it: for a
// body that is not well-formed, for an absent list of entries, which is the same as an empty one
// there, and for an absent queue on the path of one, which names it there. [XML-11, XML-30]
func formOf(action, path, body string) (form string, ok bool) {
	op := operations[action]
	if op == nil {
		return "", false
	}
	req := op.newRequest()
	if sqswire.DecodeJSON([]byte(body), req) != nil {
		return "", false
	}
	fields := reflect.ValueOf(req).Elem()
	if path != "" && op.onQueue && !fields.FieldByName("QueueURL").Field(1).Bool() {
		return "", false
	}
	if entries := fields.FieldByName("Entries"); entries.IsValid() && entries.IsNil() {
		return "", false
	}
	form, err := wiretest.Form(action, []byte(body))
	return form, err == nil
}

// sameReply checks that two answers say the same. The text for an unknown queue has two versions,
// and what XML cannot hold is replaced. [XML-18, XML-23]
func sameReply(t *testing.T, p pair) {
	t.Helper()
	action := p.action
	if p.json.status != p.xml.status || p.json.query != p.xml.query || p.json.again != p.xml.again {
		t.Errorf("%s: JSON answers %s, Query %s after %s", action, p.json, p.xml, p.form)
		return
	}
	want, err := wiretest.FromJSON([]byte(p.json.body), p.json.query)
	got, err2 := wiretest.FromXML(action, []byte(strings.Replace(p.xml.body, "<id>", "id", 1)))
	if err = errors.Join(err, err2); err != nil {
		t.Errorf("%s: %v: %s and %s", action, err, p.json, p.xml)
		return
	}
	got.RequestID = ""
	if want.Code == "AWS.SimpleQueueService.NonExistentQueue" {
		want.Message = strings.TrimSuffix(want.Message, ".") + " for this wsdl version."
	}
	want.Message = inXML(want.Message).(string)
	want.Members, _ = inXML(want.Members).(map[string]any)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: JSON says %+v, Query %+v after %s", action, want, got, p.form)
	}
}

// inXML replaces what XML cannot hold in all texts.
func inXML(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = inXML(v[name])
		}
	case []any:
		for i := range v {
			v[i] = inXML(v[i])
		}
	case string:
		return strings.Map(func(r rune) rune {
			if r < ' ' && !strings.ContainsRune("\t\n\r", r) || r == 0xFFFE || r == 0xFFFF {
				return utf8.RuneError
			}
			return r
		}, v)
	}
	return v
}
