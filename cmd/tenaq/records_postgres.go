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

	"tenaq/records"
	"tenaq/records/pgrecords"
)

// tableParameter is the parameter in the address of a database that is ours: the name of the table.
const tableParameter = "tenaq_table"

// connectTimeout is for a host that does not answer, when the address says nothing else.
const connectTimeout = 10 * time.Second

// A postgresPlace is a table of PostgreSQL. It connects with its first use.
type postgresPlace struct {
	database string // and where it is, in words
	table    string
	pool     *pgxpool.Pool
	store    *pgrecords.Store
}

func newPostgresPlace(address string) (*postgresPlace, error) {
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
	p := &postgresPlace{
		database: fmt.Sprintf("database %s at %s", cmp.Or(c.Database, c.User), hostAndPort(c.Host, c.Port)),
		// What pgx does not know it takes for a setting of the session.
		table: cmp.Or(c.RuntimeParams[tableParameter], "tenaq_records"),
	}
	delete(c.RuntimeParams, tableParameter)
	if p.pool, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		return nil, err
	}
	if p.store, err = pgrecords.New(p.pool, pgrecords.Options{Table: p.table}); err != nil {
		p.pool.Close()
		return nil, err
	}
	return p, nil
}

// hostAndPort says where a server listens: at an address, or on a socket in a directory.
func hostAndPort(host string, port uint16) string {
	if strings.HasPrefix(host, "/") {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

func (p *postgresPlace) String() string { return "table " + p.table + " of " + p.database }

func (p *postgresPlace) exists(ctx context.Context) (there bool, err error) {
	name := pgx.Identifier(strings.Split(p.table, ".")).Sanitize()
	err = p.pool.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", pgx.QueryExecModeExec, name).Scan(&there)
	return there, p.explain("look for records", err)
}

func (p *postgresPlace) make(ctx context.Context) error {
	return p.explain("make the tables", p.store.Migrate(ctx))
}

func (p *postgresPlace) open(context.Context) (records.Store, error) { return p.store, nil }

func (p *postgresPlace) schema() string { return p.store.Schema() }

func (p *postgresPlace) close() { p.pool.Close() }

// explain says what to do about an error of PostgreSQL, where there is something to do.
func (p *postgresPlace) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	// The errors of several hosts, and of several ways to connect to one, come in lines.
	text := strings.Join(strings.Fields(err.Error()), " ")
	advice := ""
	var refusal *pgconn.PgError
	var unconnected *pgconn.ConnectError
	switch errors.As(err, &refusal); {
	case errors.Is(err, context.Canceled):
		return codedf(exitFailed, "%s: interrupted", doing)
	case refusal != nil && refusal.Code == "42501": // insufficient_privilege
		advice = `; let the owner of the database apply what "tenaq records init --print" prints, and grant this user the use of it`
	case refusal != nil && refusal.Code == "3F000": // invalid_schema_name
		advice = "; create that schema, or name another in " + tableParameter
	case errors.As(err, &unconnected):
		advice = "; check the address, and that the server runs and lets this user in"
	}
	return codedf(exitFailed, "%s in %s: %s%s", doing, p, text, advice)
}
