package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"tenaq/internal/cli"
	"tenaq/outbox"
	"tenaq/outbox/pgoutbox"
	"tenaq/outbox/sqliteoutbox"
)

type box interface {
	outbox.History
	outbox.Decider
	Enqueue(context.Context, ...outbox.Message) error
	EnqueueOnce(context.Context, outbox.Message) (there *outbox.Message, err error)
}

// A place is a database with an outbox, or one that could have one.
type place interface {
	cli.Place
	Make(ctx context.Context, create bool) error // create makes a missing file, too
	Open(context.Context) (box, error)           // of an outbox that exists

	name() string // of the table
	// where an error happened and what to do, as far as the error does not say so
	advice(error) string
}

// place parses the address. It connects to nothing.
func (f *flags) place() (place, error) {
	const known = "postgres://USER@HOST/DATABASE or sqlite:PATH"
	address, origin := cli.FlagOr(cmp.Or(f.flag, "--db"), f.address, "TENAQ_OUTBOX", os.Getenv)
	if address == "" {
		return nil, cli.Usagef("which database? Name that of the program that writes to the outbox with --db or TENAQ_OUTBOX, as %s", known)
	}
	address, err := f.withTable(address)
	if err != nil {
		return nil, cli.Usagef("--table: %v", err)
	}
	place, err := ParsePlace(address, known)
	if err != nil {
		return nil, cli.Usagef("%s: %v", origin, err)
	}
	return place, nil
}

func (f *flags) withTable(address string) (string, error) {
	if f.table == "" {
		return address, nil
	}
	if _, err := pgoutbox.Schema(f.table); err != nil {
		return "", err
	}
	if strings.Contains(address, cli.TableParameter+"=") {
		return "", fmt.Errorf("the address names a table already, with %s; leave out one of them",
			cli.TableParameter)
	}
	separator := "?"
	if !strings.HasPrefix(address, "sqlite:") && strings.Contains(address, "?") {
		separator = "&"
	}
	return address + separator + cli.TableParameter + "=" + f.table, nil
}

// ParsePlace reads the address of an outbox. known lists the forms of addresses for the error.
func ParsePlace(address, known string) (place, error) {
	scheme, rest, _ := strings.Cut(address, ":")
	switch {
	case scheme == "sqlite":
		return newSQLite(rest)
	case (scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//"):
		return newPostgres(address)
	case rest == "" && (strings.HasSuffix(address, ".db") || strings.HasSuffix(address, ".sqlite")):
		return nil, fmt.Errorf("%q is not %s; did you mean sqlite:%s?", address, known, address)
	}
	// The rest may hold a password.
	return nil, fmt.Errorf("an address that begins with %q is not %s", cmp.Or(scheme, ":"), known)
}

// explain makes an error of a place one sentence with an exit code.
func explain(p place, err error) error {
	foreign, isForeign := errors.AsType[*outbox.ForeignTable](err)
	switch {
	case err == nil:
		return nil
	case isForeign:
		other := "tenaq_outbox"
		schema, name, qualified := strings.Cut(p.name(), ".")
		if schema == other || name == other {
			other = "tenaq_messages"
		}
		if qualified {
			other = schema + "." + other
		}
		return cli.Codedf(cli.ExitRefused,
			"%s is not an outbox: %s. Nothing was changed. Use another table: tenaq outbox init --table %s, and add --table %[3]s to all outbox commands",
			p, foreign.Why, other)
	case errors.Is(err, outbox.ErrSchema):
		return cli.Codedf(cli.ExitNotFound, "%v%s", err, p.advice(nil))
	case errors.Is(err, context.Canceled):
		return cli.Codedf(cli.ExitFailed, "interrupted")
	}
	return cli.Codedf(cli.ExitFailed, "%s%s", cli.InOneLine(err), p.advice(err))
}

// A Postgres is an outbox in PostgreSQL.
type Postgres struct {
	*cli.PostgresTable
	box *pgoutbox.Box
}

func newPostgres(address string) (*Postgres, error) {
	table, err := cli.NewPostgresTable(address, "outbox", "tenaq outbox init")
	if err != nil {
		return nil, err
	}
	box, err := pgoutbox.New(pgoutbox.Config{Pool: table.Pool, Table: table.Table})
	if err != nil {
		table.Pool.Close()
		return nil, err
	}
	return &Postgres{table, box}, nil
}

func (p *Postgres) Schema() string {
	schema, _ := pgoutbox.Schema(p.Table) // New has checked the name
	return schema
}

func (p *Postgres) Exists(ctx context.Context) (bool, error) {
	// A table called outbox may belong to another program. This one is made together with the rest.
	there, err := p.PostgresTable.Exists(ctx, p.Table+"_meta")
	return there, p.Explain("look for an outbox", err)
}

func (p *Postgres) Make(ctx context.Context, _ bool) error { return explain(p, p.box.Migrate(ctx)) }

func (p *Postgres) Open(context.Context) (box, error) { return p.box, nil }

func (p *Postgres) name() string { return p.Table }

func (p *Postgres) advice(err error) string { return " (in " + p.String() + ")" + p.Advice(err) }

func (p *Postgres) Close() {
	_ = p.box.Close()
	p.Pool.Close()
}

// A sqlite is an outbox in a file of SQLite. Package sqliteoutbox says itself where an error
// happened.
type sqlite struct {
	file  *cli.SQLitePlace
	table string
	sql   string            // that makes the tables
	box   *sqliteoutbox.Box // nil until the file is open
}

func newSQLite(address string) (*sqlite, error) {
	address, table, _ := strings.Cut(address, "?"+cli.TableParameter+"=")
	file, err := cli.NewSQLitePlace(address)
	if err != nil {
		return nil, err
	}
	schema, err := sqliteoutbox.Schema(table)
	if err != nil {
		return nil, err
	}
	return &sqlite{file: file, table: cmp.Or(table, "outbox"), sql: schema}, nil
}

func (p *sqlite) String() string { return "table " + p.table + " of " + p.file.String() }

func (p *sqlite) Schema() string { return p.sql }

func (p *sqlite) Exists(ctx context.Context) (bool, error) {
	there, err := p.file.Exists(ctx)
	if err != nil || !there {
		return false, err
	}
	if _, err := p.Open(ctx); err != nil {
		return false, err
	}
	tables := 0
	err = p.box.DB().QueryRowContext(ctx,
		"SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE",
		p.table+"_meta").Scan(&tables)
	return tables > 0, explain(p, err)
}

func (p *sqlite) Make(ctx context.Context, create bool) error {
	how := os.O_RDWR
	if create {
		how |= os.O_CREATE
	}
	switch file, err := os.OpenFile(p.file.Path, how, 0o600); {
	case err == nil:
		_ = file.Close() // nothing was written
	case !create && errors.Is(err, os.ErrNotExist):
		return cli.Codedf(cli.ExitNotFound,
			"there is no file %s; name the database to which the program writes, or make an empty one with --create", p.file.Path)
	case create:
		return cli.Codedf(cli.ExitFailed,
			"cannot make the file of the database: %v; check that the directory exists and that this user may write to it", err)
	}
	if _, err := p.Open(ctx); err != nil {
		return err
	}
	return explain(p, p.box.Migrate(ctx))
}

func (p *sqlite) Open(context.Context) (box, error) {
	if p.box == nil {
		box, err := sqliteoutbox.New(sqliteoutbox.Config{Path: p.file.Path, Table: p.table})
		if err != nil {
			return nil, explain(p, err)
		}
		p.box = box
	}
	return p.box, nil
}

func (p *sqlite) name() string { return p.table }

func (p *sqlite) advice(error) string { return "" }

func (p *sqlite) Close() {
	if p.box != nil {
		_ = p.box.Close()
	}
}
