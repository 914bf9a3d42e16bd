// Package layout converts between messages and the rows of an outbox table, in the same way for
// every database. It has no database of its own.
package layout

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"tenaq/outbox"
)

// Columns are the columns of a row that a program may set.
const Columns = "id, aggregatetype, aggregateid, type, payload, group_id, dedup_id, headers, deliver_after, generation"

// word is a part of a table name. It is short enough that names which begin with it stay distinct
// within the 63 bytes that PostgreSQL compares.
var word = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,39}$`)

// Table splits the name of an outbox table into its schema, which may be empty, and its name. The
// default name is "outbox". Each part has at most 40 letters, digits and underscores.
func Table(name string) (schema, table string, err error) {
	name = cmp.Or(name, "outbox")
	schema, table, qualified := strings.Cut(name, ".")
	if !qualified {
		schema, table = "", name
	}
	if !word.MatchString(table) || qualified && !word.MatchString(schema) {
		return "", "", fmt.Errorf("%q cannot be the table of an outbox: pass a name, or a schema and a name, of up to 40 letters, digits and underscores", name)
	}
	return schema, table, nil
}

// Encode returns messages as a JSON array of rows, with the headers of trace added to each.
// Messages of one stream keep their order. The streams are sorted, so that two transactions which
// write to the same streams cannot block each other.
func Encode(ctx context.Context, trace outbox.Trace, messages []outbox.Message) (string, error) {
	messages = slices.Clone(messages)
	var more map[string]string
	if trace != nil {
		more = trace(ctx)
	}
	for i := range messages {
		m := &messages[i]
		if len(more) > 0 {
			headers := maps.Clone(more)
			maps.Copy(headers, m.Headers)
			m.Headers = headers
		}
		if m.ID == "" {
			m.ID = outbox.NewID()
		}
		if err := m.Check(); err != nil {
			return "", fmt.Errorf("message %d of %d for the outbox: %w", i+1, len(messages), err)
		}
	}
	slices.SortStableFunc(messages, func(a, b outbox.Message) int {
		return strings.Compare(stream(&a), stream(&b))
	})
	rows := make([]map[string]any, len(messages))
	for i, m := range messages {
		row := map[string]any{"id": m.ID, "aggregatetype": m.Queue, "aggregateid": m.Key,
			"type": m.Type, "payload": m.Body}
		set := func(column string, is bool, value any) {
			if is {
				row[column] = value
			}
		}
		set("group_id", m.Group != "", m.Group)
		set("dedup_id", m.Dedup != "", m.Dedup)
		set("headers", len(m.Headers) > 0, m.Headers)
		set("deliver_after", !m.After.IsZero(), m.After.UTC().Format(time.RFC3339Nano))
		set("generation", m.Generation != 0, m.Generation)
		rows[i] = row
	}
	text, err := json.Marshal(rows)
	return string(text), err
}

// stream names the stream in which a message keeps its order, or is empty. The triggers of the
// tables compute the same name.
func stream(m *outbox.Message) string {
	switch {
	case m.Group != "":
		return m.Queue + "\x1f" + m.Group
	case strings.HasSuffix(m.Queue, ".fifo"):
		return m.Queue + "\x1f" + m.Key
	}
	return ""
}

// Decode reads a row of Source.Query, a JSON object of its columns. Its errors are an
// outbox.ErrSource.
func Decode(row []byte) (m outbox.Message, err error) {
	if err := decode(&m, row); err != nil {
		return outbox.Message{}, fmt.Errorf("%w: %w", outbox.ErrSource, err)
	}
	return m, nil
}

func decode(m *outbox.Message, row []byte) (err error) {
	var columns map[string]json.RawMessage
	if err := json.Unmarshal(row, &columns); err != nil {
		return err
	}
	known := map[string]any{
		"id": &m.ID, "aggregatetype": &m.Queue, "aggregateid": &m.Key, "type": &m.Type,
		"payload":  &m.Body,
		"group_id": &m.Group, "dedup_id": &m.Dedup, "headers": &m.Headers,
		"generation": &m.Generation,
	}
	for name, value := range columns {
		field, ok := known[name]
		switch {
		case !ok:
			return fmt.Errorf("the query has a column %q, which an outbox does not have: name its columns id, aggregatetype, aggregateid, type, payload, group_id, dedup_id, headers or generation", name)
		case string(value) == "null":
			continue
		}
		var text string
		_, isText := field.(*string)
		isString := json.Unmarshal(value, &text) == nil
		switch {
		case isText && !isString: // a number as a key, an object as the body
			*field.(*string) = string(value)
			continue
		case !isText && isString: // from a database without a type for objects
			value = []byte(text)
		}
		if name == "headers" {
			m.Headers, err = Headers(value)
		} else {
			err = json.Unmarshal(value, field)
		}
		if err != nil {
			return fmt.Errorf("the column %q of the query: %w", name, err)
		}
	}
	if m.ID == "" && m.Dedup == "" {
		return errors.New("the query does not name the work of its rows: select a column dedup_id, or the id of the row in the outbox, so that no work is done twice")
	}
	return nil
}

// Headers reads the column headers of a row, a JSON object. Programs may have written other values
// than strings: a number becomes its text, and a null is skipped.
func Headers(object []byte) (map[string]string, error) {
	var values map[string]json.RawMessage
	if err := json.Unmarshal(object, &values); err != nil {
		return nil, err
	}
	headers := make(map[string]string, len(values))
	for name, raw := range values {
		var text string
		switch {
		case string(raw) == "null":
			continue
		case json.Unmarshal(raw, &text) != nil:
			text = string(raw)
		}
		headers[name] = text
	}
	return headers, nil
}
