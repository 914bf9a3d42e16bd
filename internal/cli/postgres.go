package cli

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

// TableParameter is the parameter in the address of a database that is ours: the name of the table.
const TableParameter = "tenaq_table"

// connectTimeout is for a host that does not answer, when the address says nothing else.
const connectTimeout = 10 * time.Second

// A PostgresTable is a table of PostgreSQL, which may not exist yet. It connects when it is used.
type PostgresTable struct {
	database string // and where it is, in words
	Table    string
	Pool     *pgxpool.Pool
	init     string // the command that makes the table
}

// NewPostgresTable parses the address of a table. otherwise is the table of an address that names
// none.
func NewPostgresTable(address, otherwise, init string) (*PostgresTable, error) {
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("%w; write postgres://USER@HOST/DATABASE", err)
	}
	c := cfg.ConnConfig
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, connectTimeout)
	// Of several hosts, use the one that accepts writes.
	if c.ValidateConnect == nil && len(c.Fallbacks) > 0 {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	t := &PostgresTable{
		database: fmt.Sprintf("database %s at %s", cmp.Or(c.Database, c.User),
			hostAndPort(c.Host, c.Port)),
		// pgx takes an unknown parameter for a setting of the session.
		Table: cmp.Or(c.RuntimeParams[TableParameter], otherwise),
		init:  init,
	}
	delete(c.RuntimeParams, TableParameter)
	t.Pool, err = pgxpool.NewWithConfig(context.Background(), cfg)
	return t, err
}

// hostAndPort says where a server listens: at an address, or on a socket in a directory.
func hostAndPort(host string, port uint16) string {
	if strings.HasPrefix(host, "/") {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

func (t *PostgresTable) String() string { return "table " + t.Table + " of " + t.database }

// Exists reports whether a table exists.
func (t *PostgresTable) Exists(ctx context.Context, table string) (there bool, err error) {
	name := pgx.Identifier(strings.Split(table, ".")).Sanitize()
	err = t.Pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", pgx.QueryExecModeExec,
		name).Scan(&there)
	return there, err
}

// Explain turns an error of PostgreSQL into one sentence.
func (t *PostgresTable) Explain(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return Codedf(ExitFailed, "%s: interrupted", doing)
	}
	return Codedf(ExitFailed, "%s in %s: %s%s", doing, t, InOneLine(err), t.Advice(err))
}

// InOneLine is the text of an error: those of several hosts, and of several ways to connect to one,
// come in lines.
func InOneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// Advice says what to do about an error of PostgreSQL; "" if that is not known.
func (t *PostgresTable) Advice(err error) string {
	var refusal *pgconn.PgError
	var unconnected *pgconn.ConnectError
	switch errors.As(err, &refusal); {
	case refusal != nil && refusal.Code == "42501": // insufficient_privilege
		return `; let the owner of the database apply what "` + t.init + ` --print" prints, and grant this user the use of it`
	case refusal != nil && refusal.Code == "3F000": // invalid_schema_name
		return "; create that schema, or name another in " + TableParameter
	case errors.As(err, &unconnected):
		return "; check the address, and that the server runs and lets this user in"
	}
	return ""
}
