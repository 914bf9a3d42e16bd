package pgrecords

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// schemaVersion is the schema that this code works with. An incompatible later schema has a larger
// number; the SQL updates any older one.
const schemaVersion = 1

//go:embed schema.sql
var schemaSQL string

// names are the parts of the name of the table: its name, or its schema and its name.
type names pgx.Identifier

// word is a part of the name of a table. It is short enough that names which begin with it stay
// distinct within the 63 bytes that PostgreSQL compares.
var word = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,49}$`)

func namesOf(table string) (names, error) {
	parts := strings.Split(cmp.Or(table, "tenaq_records"), ".")
	for _, part := range parts {
		if len(parts) > 2 || !word.MatchString(part) {
			return nil, fmt.Errorf("%q cannot be the table of records: pass a name, or a schema and a name, of up to 50 letters, digits and underscores", table)
		}
	}
	return parts, nil
}

// of returns the name of an object of the store, which is that of the table with a suffix, quoted
// for use in SQL.
func (n names) of(suffix string) string {
	id := slices.Clone(pgx.Identifier(n))
	id[len(id)-1] += suffix
	return id.Sanitize()
}

// sql returns the schema under these names.
func (n names) sql() string {
	pairs := []string{"{{table}}", n.of(""), "{{index}}", n[len(n)-1:].of("_expires"),
		"{{schema}}", strconv.Itoa(schemaVersion)}
	for _, part := range []string{"meta", "now", "micros", "begin", "put", "delete", "sweep"} {
		pairs = append(pairs, "{{"+part+"}}", n.of("_"+part))
	}
	return strings.NewReplacer(pairs...).Replace(schemaSQL)
}

// Schema returns the SQL that creates or updates the tables and functions of a store in table. It
// is for operators who apply schemas themselves, in one transaction (psql -1 -v ON_ERROR_STOP=1),
// any number of times.
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
		return fmt.Errorf("migrate the records in %s: %w", s.names.of(""), err)
	}
	return nil
}

// errSchema is the error of every method if the tables are missing or have another version.
var errSchema = errors.New("the tables of the records do not match this program: call Migrate, or apply the SQL of Schema")
