package pgrecords

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// schemaVersion is the schema that this code works with. A later one that this code could not work
// with has a larger number; the SQL brings any older one up to it.
const schemaVersion = 1

//go:embed schema.sql
var schemaSQL string

// names are the tables and functions of one store, quoted for use in SQL.
type names struct{ table, meta, index, now, micros, begin, put, delete, sweep string }

// word is what a part of a table's name may be: short enough for what is made from it to be told
// apart within the 63 bytes that PostgreSQL looks at.
var word = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,49}$`)

func namesOf(table string) (names, error) {
	parts := strings.Split(cmp.Or(table, "tenaq_records"), ".")
	for _, part := range parts {
		if len(parts) > 2 || !word.MatchString(part) {
			return names{}, fmt.Errorf("%q cannot be the table of records: give a name, or a schema and a name, of up to 50 letters, digits and underscores", table)
		}
	}
	last := len(parts) - 1
	with := func(suffix string) string {
		id := append(pgx.Identifier(nil), parts...)
		id[last] += suffix
		return id.Sanitize()
	}
	return names{
		table:  with(""),
		meta:   with("_meta"),
		index:  pgx.Identifier{parts[last] + "_expires"}.Sanitize(),
		now:    with("_now"),
		micros: with("_micros"),
		begin:  with("_begin"),
		put:    with("_put"),
		delete: with("_delete"),
		sweep:  with("_sweep"),
	}, nil
}

// sql is the schema under these names.
func (n names) sql() string {
	return strings.NewReplacer(
		"{{table}}", n.table, "{{meta}}", n.meta, "{{index}}", n.index, "{{now}}", n.now,
		"{{micros}}", n.micros,
		"{{begin}}", n.begin, "{{put}}", n.put, "{{delete}}", n.delete, "{{sweep}}", n.sweep,
		"{{schema}}", strconv.Itoa(schemaVersion),
	).Replace(schemaSQL)
}

// Schema returns the SQL that creates the tables and functions of a store in table, or brings older
// ones up to date. It is for operators who apply schemas themselves, in one transaction (psql -1 -v
// ON_ERROR_STOP=1), any number of times.
func Schema(table string) (string, error) {
	n, err := namesOf(table)
	if err != nil {
		return "", err
	}
	return n.sql(), nil
}

// Migrate applies Schema if the tables are missing or older. Any number of processes may call it at
// once.
func (s *Store) Migrate(ctx context.Context) error {
	if err := s.schema.Migrate(ctx, s.names.sql()); err != nil {
		return fmt.Errorf("migrate the records in %s: %w", s.names.table, err)
	}
	return nil
}

// errSchema is the error of every method while the tables are missing or have another version.
var errSchema = errors.New("the tables of the records are not as this program needs them: call Migrate, or apply what Schema returns")
