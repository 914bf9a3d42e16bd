package sqswire

// AppendQueryJSON appends the response of an operation to a request in the Query protocol that
// asked for JSON. It is the document of AppendXML as an object: under the names of the operation,
// with maps as lists of pairs, and with null for what is absent. [XML-26, XML-33]
func AppendQueryJSON(dst []byte, op Operation, resp Shape, requestID string) []byte {
	dst = append(append(append(dst, `{"`...), op.Name...), `Response":{`...)
	if !op.Void {
		dst = append(append(append(dst, '"'), op.Name...), `Result":`...)
		e := queryJSONEncoder{encoder{dst}}
		e.shape(resp)
		dst = append(e.dst, ',')
	}
	dst = append(append(dst, `"ResponseMetadata":{"RequestId":"`...), requestID...)
	return append(dst, `"}}}`...)
}

// AppendErrorQueryJSON appends the body of an error response to such a request. [XML-34]
func AppendErrorQueryJSON(dst []byte, e *Error, requestID string) []byte {
	code, info := e.lookup()
	dst = append(append(dst, `{"Error":{"Code":"`...), code...)
	dst = appendQuoted(append(dst, `","Message":`...), e.queryText())
	dst = append(append(dst, `,"Type":"`...), info.Fault...)
	dst = append(append(dst, `"},"RequestId":"`...), requestID...)
	return append(dst, `"}`...)
}

// A queryJSONEncoder is the visitor that writes this kind of JSON.
type queryJSONEncoder struct{ encoder }

func (e *queryJSONEncoder) shape(s Shape) {
	e.dst = append(e.dst, '{')
	if s != nil {
		s.members(e)
	}
	e.dst = append(e.dst, '}')
}

func (e *queryJSONEncoder) null(name string) {
	e.name(name)
	e.dst = append(e.dst, "null"...)
}

func (e *queryJSONEncoder) optString(name string, m *Opt[string]) {
	if !m.Set {
		e.null(name)
		return
	}
	e.encoder.optString(name, m)
}

func (e *queryJSONEncoder) optInt(name string, m *Opt[int64]) {
	if !m.Set {
		e.null(name)
		return
	}
	e.encoder.optInt(name, m)
}

func (e *queryJSONEncoder) blob(name string, m *[]byte) {
	if *m == nil {
		e.null(name)
		return
	}
	e.encoder.blob(name, m)
}

// listName returns the name of a list. One that is named after its elements begins in lower case
// here, as the messages of a receive and the queueUrls of a listing do.
func listName(name, query string) string {
	if name == query+"s" {
		return string(name[0]|0x20) + name[1:]
	}
	return name
}

func (e *queryJSONEncoder) strings(name, query string, m *[]string) {
	name = listName(name, query)
	if len(*m) == 0 {
		e.null(name)
		return
	}
	e.encoder.requiredStrings(name, query, m)
}

func (e *queryJSONEncoder) requiredStrings(name, query string, m *[]string) {
	e.strings(name, query, m)
}

func (e *queryJSONEncoder) pairs(name, _, key string, m *Pairs) {
	if len(*m) == 0 {
		e.null(name)
		return
	}
	e.name(name)
	e.dst = append(e.dst, '[')
	for _, p := range sorted(*m, comparePairs) {
		e.comma('[')
		e.dst = append(e.dst, '{')
		e.string(key, &p.Name)
		e.name("Value")
		e.dst = append(appendQuoted(e.dst, p.Value), '}')
	}
	e.dst = append(e.dst, ']')
}

func (e *queryJSONEncoder) attributes(name, _ string, m *MessageAttributes) {
	if len(*m) == 0 {
		e.null(name)
		return
	}
	e.name(name)
	e.dst = append(e.dst, '[')
	list := sorted(*m, compareAttributes)
	for i := range list {
		e.comma('[')
		e.dst = append(e.dst, '{')
		e.string("Name", &list[i].Name)
		e.name("Value")
		e.shape(&list[i])
		e.dst = append(e.dst, '}')
	}
	e.dst = append(e.dst, ']')
}

func (e *queryJSONEncoder) structs(name, query string, m list) {
	name = listName(name, query)
	if m.len() == 0 {
		e.null(name)
		return
	}
	e.name(name)
	e.dst = append(e.dst, '[')
	for i := range m.len() {
		e.comma('[')
		e.shape(m.at(i))
	}
	e.dst = append(e.dst, ']')
}

func (e *queryJSONEncoder) listGiven(name, _ string, _ *bool) { e.null(name) }

func (e *queryJSONEncoder) string(name string, m *string) {
	if *m == "" {
		e.null(name)
		return
	}
	e.encoder.string(name, m)
}
