package sqliteoutbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"tenaq/outbox"
	"tenaq/outbox/internal/layout"
)

// walkQuery counts the rows of a query, and calls each for the first ones, as messages.
func walkQuery(
	ctx context.Context, c *sql.Conn, text string, limit int, each func(outbox.Past) error,
) (count int, err error) {
	err = query(ctx, c, text, func(row []byte) error {
		if count++; limit != noLimit && count > limit {
			return nil
		}
		m, err := layout.Decode(row)
		if err != nil {
			return fmt.Errorf("row %d: %w", count, err)
		}
		return each(outbox.Past{Message: m})
	})
	return count, err
}

// query runs the query of a source and calls do for its rows, as JSON objects, in the order of the
// query.
func query(ctx context.Context, c *sql.Conn, text string, do func(row []byte) error) error {
	if err := oneExpression(text); err != nil {
		return err
	}
	// In parentheses, only a single SELECT runs.
	from := " FROM (\n" + text + "\n)"
	names, err := columnsOf(ctx, c, from)
	if err != nil {
		return err
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = `+"` + strings.ReplaceAll(name, `"`, `""`) + `"`
	}
	// With the sign, a column has no declared type, so drivers do not convert texts to times.
	values, targets := make([]any, len(names)), make([]any, len(names))
	for i := range values {
		targets[i] = &values[i]
	}
	n := 0
	return eachOf(ctx, c, func(rows *sql.Rows) error {
		n++
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		row, err := object(names, values)
		if err != nil {
			return fmt.Errorf("%w: row %d: %w", outbox.ErrSource, n, err)
		}
		return do(row)
	}, "SELECT "+strings.Join(quoted, ", ")+from)
}

func columnsOf(ctx context.Context, c *sql.Conn, from string) ([]string, error) {
	rows, err := c.QueryContext(ctx, "SELECT *"+from+" LIMIT 0")
	if err != nil {
		return nil, blame(err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	return names, blame(rows.Err())
}

// object returns a row in the format of layout.Decode.
func object(names []string, values []any) ([]byte, error) {
	columns := make(map[string]any, len(names))
	for i, name := range names {
		switch v := values[i].(type) {
		case []byte:
			return nil, fmt.Errorf("the column %q of the query is a blob: convert it to text, with CAST(... AS TEXT) or hex(...)", name)
		case string:
			if !utf8.ValidString(v) {
				return nil, fmt.Errorf("the column %q of the query is not UTF-8: convert it to text, for example with hex(...)", name)
			}
			columns[name] = v
		default:
			columns[name] = v
		}
	}
	return json.Marshal(columns)
}

// oneExpression returns an error if SQL would leave the parentheses around it. It would then be
// more than one statement, which drivers run. SQLite refuses other errors.
func oneExpression(text string) error {
	depth := 0
	for rest := text; rest != ""; {
		n, err := tokenOf(rest)
		if err != nil {
			return fmt.Errorf("%w: %w", outbox.ErrSource, err)
		}
		switch token := rest[:n]; {
		case token == "(":
			depth++
		case token == ")":
			depth--
		}
		if depth < 0 {
			return fmt.Errorf("%w: its SQL has one closing parenthesis too many", outbox.ErrSource)
		}
		rest = rest[n:]
	}
	if depth > 0 {
		return fmt.Errorf("%w: its SQL has one opening parenthesis too many", outbox.ErrSource)
	}
	return nil
}

// quotes are the ends of quoted texts. A doubled quote is a character of the text.
var quotes = map[byte]string{'\'': "'", '"': `"`, '`': "`", '[': "]"}

// tokenOf returns the length of the first token: a word, a quoted text, a comment, or a character.
func tokenOf(text string) (int, error) {
	switch first := text[0]; {
	case strings.HasPrefix(text, "--"):
		if i := strings.IndexByte(text, '\n'); i >= 0 {
			return i + 1, nil
		}
		return len(text), nil
	case strings.HasPrefix(text, "/*"):
		i := strings.Index(text[2:], "*/")
		if i < 0 {
			return 0, errors.New("its SQL has a comment without an end")
		}
		return 2 + i + 2, nil
	case quotes[first] != "":
		i := strings.Index(text[1:], quotes[first]) // a second one at once begins the next token
		if i < 0 || strings.Contains(text[:1+i], "\x00") {
			return 0, fmt.Errorf("its SQL has a %c without an end", first)
		}
		return 1 + i + 1, nil
	case ofWord(first):
		n := 1
		for n < len(text) && (ofWord(text[n]) || text[n] == '$') {
			n++
		}
		return n, nil
	case first == ';':
		return 0, errors.New("its SQL must be one statement, without a semicolon")
	case first == 0:
		return 0, errors.New("its SQL has a zero byte")
	case strings.IndexByte("?:@$#", first) >= 0:
		return 0, fmt.Errorf("its SQL has the parameter %q, which has no value",
			text[:min(len(text), 10)])
	}
	return 1, nil
}

func ofWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' ||
		c >= 0x80
}
