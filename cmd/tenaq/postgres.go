package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// tableParameter is the parameter in the address of a database that is ours: the name of the table.
const tableParameter = "tenaq_table"

// connectTimeout is for a host that does not answer, when the address says nothing else.
const connectTimeout = 10 * time.Second

// A postgresTable is a table of PostgreSQL, which may not be there yet. It connects with its first use.
type postgresTable struct {
	database string // and where it is, in words
	table    string
	pool     *pgxpool.Pool
	init     string // the command that makes the table
}

// newPostgresTable reads the address of a table; one that names none means the table called otherwise.
func newPostgresTable(address, otherwise, init string) (*postgresTable, error) {
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("%w; write postgres://USER@HOST/DATABASE", err)
	}
	c := cfg.ConnConfig
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, connectTimeout)
	// Of several hosts the one is wanted that takes writes.
	if c.ValidateConnect == nil && len(c.Fallbacks) > 0 {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	t := &postgresTable{
		database: fmt.Sprintf("database %s at %s", cmp.Or(c.Database, c.User), hostAndPort(c.Host, c.Port)),
		// What pgx does not know it takes for a setting of the session.
		table: cmp.Or(c.RuntimeParams[tableParameter], otherwise),
		init:  init,
	}
	delete(c.RuntimeParams, tableParameter)
	t.pool, err = pgxpool.NewWithConfig(context.Background(), cfg)
	return t, err
}

// hostAndPort says where a server listens: at an address, or on a socket in a directory.
func hostAndPort(host string, port uint16) string {
	if strings.HasPrefix(host, "/") {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

func (t *postgresTable) String() string { return "table " + t.table + " of " + t.database }

// exists tells whether a table is there.
func (t *postgresTable) exists(ctx context.Context, table string) (there bool, err error) {
	name := pgx.Identifier(strings.Split(table, ".")).Sanitize()
	err = t.pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", pgx.QueryExecModeExec, name).Scan(&there)
	return there, err
}

// explain makes one sentence of an error of PostgreSQL.
func (t *postgresTable) explain(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return codedf(exitFailed, "%s: interrupted", doing)
	}
	return codedf(exitFailed, "%s in %s: %s%s", doing, t, inOneLine(err), t.advice(err))
}

// inOneLine is the text of an error: those of several hosts, and of several ways to connect to one, come in lines.
func inOneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// advice says what to do about an error of PostgreSQL, where there is something to do.
func (t *postgresTable) advice(err error) string {
	var refusal *pgconn.PgError
	var unconnected *pgconn.ConnectError
	switch errors.As(err, &refusal); {
	case refusal != nil && refusal.Code == "42501": // insufficient_privilege
		return `; let the owner of the database apply what "` + t.init + ` --print" prints, and grant this user the use of it`
	case refusal != nil && refusal.Code == "3F000": // invalid_schema_name
		return "; create that schema, or name another in " + tableParameter
	case errors.As(err, &unconnected):
		return "; check the address, and that the server runs and lets this user in"
	}
	return ""
}
