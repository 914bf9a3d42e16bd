package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/spf13/cobra"

	"tenaq/internal/cli"
	"tenaq/outbox"
	"tenaq/outbox/pgoutbox"
	"tenaq/outbox/sqliteoutbox"
)

// outboxHelp says what --db takes; it is part of the help of every command that has it.
const outboxHelp = `The outbox is in the database to which the programs write, as --db or TENAQ_OUTBOX says:

  postgres://USER@HOST/DATABASE    PostgreSQL; the rest is as psql has it
  sqlite:PATH                      a file of SQLite, which is taken to the mode WAL

The table is called outbox. --table NAME names another one, or SCHEMA.NAME in PostgreSQL; so does
?tenaq_table=NAME at the end of the address. Every command and every program needs the same name.

Others on the machine can see a command line: a password belongs in PGPASSWORD, ~/.pgpass or TENAQ_OUTBOX.`

// flags say where the outbox is.
type flags struct{ address, table string }

func (f *flags) register(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&f.address, "db", "", "`address` of the database that the outbox is in: postgres://... or sqlite:PATH (default $TENAQ_OUTBOX)")
	cmd.PersistentFlags().StringVar(&f.table, "table", "", "`name` of the outbox table, in PostgreSQL also SCHEMA.NAME (default outbox)")
}

// An place is a database with an outbox, or one that could have one. Its errors are for operators.
type place interface {
	String() string                       // its address, without a password
	Schema() string                       // what make makes, for those who make it otherwise
	Exists(context.Context) (bool, error) // whether there is an outbox

	// make makes the tables, and with create a missing file for them.
	Make(ctx context.Context, create bool) error

	// open returns the outbox, which exists.
	Open(context.Context) (outbox.Box, error)
	enqueue(context.Context, []outbox.Message) error // into one that is open

	// enqueueOnce is enqueue for a message, unless a row with its ID is there: then it returns that row's message.
	enqueueOnce(context.Context, outbox.Message) (there *outbox.Message, err error)
	Explain(error) error // of the open outbox, for an operator
	Close()
}

// An openOutbox is an outbox that is there.
type openOutbox struct {
	outbox.Box
	place place
}

// Open opens the outbox. It makes nothing: the database is that of a program, and a relay in the wrong one would wait
// for ever.
func (f *flags) Open(ctx context.Context) (*openOutbox, error) {
	place, err := f.place()
	if err != nil {
		return nil, err
	}
	there, err := place.Exists(ctx)
	if err == nil && !there {
		err = cli.Codedf(cli.ExitNotFound, "there is no outbox in %s; check --db, TENAQ_OUTBOX and --table, or make it with: tenaq outbox init", place)
	}
	var box outbox.Box
	if err == nil {
		box, err = place.Open(ctx)
	}
	if err != nil {
		place.Close()
		return nil, err
	}
	return &openOutbox{box, place}, nil
}

func (o *openOutbox) Close() { o.place.Close() }

// name is a short name of the database for people who know theirs: the end of its address.
func (o *openOutbox) name() string {
	address := o.place.String()
	return strings.ReplaceAll(address[strings.LastIndexByte(address, '/')+1:], " ", "-")
}

// place finds out what the address means. It connects to nothing.
func (f *flags) place() (place, error) {
	const known = "postgres://USER@HOST/DATABASE or sqlite:PATH"
	address, origin := f.address, "--db"
	if address == "" {
		address, origin = os.Getenv("TENAQ_OUTBOX"), "TENAQ_OUTBOX"
	}
	if address == "" {
		return nil, cli.Usagef("which database? An outbox is in that of the program that writes to it: name it with --db or TENAQ_OUTBOX, as %s", known)
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

// withTable adds the table to an address that names none.
func (f *flags) withTable(address string) (string, error) {
	if f.table == "" {
		return address, nil
	}
	if _, err := pgoutbox.Schema(f.table); err != nil {
		return "", err
	}
	if strings.Contains(address, cli.TableParameter+"=") {
		return "", fmt.Errorf("the address names a table already, with %s; leave one of them out", cli.TableParameter)
	}
	separator := "?"
	if !strings.HasPrefix(address, "sqlite:") && strings.Contains(address, "?") {
		separator = "&"
	}
	return address + separator + cli.TableParameter + "=" + f.table, nil
}

func ParsePlace(address, known string) (place, error) {
	scheme, rest, _ := strings.Cut(address, ":")
	switch {
	case scheme == "sqlite":
		return NewSQLite(rest)
	case (scheme == "postgres" || scheme == "postgresql") && strings.HasPrefix(rest, "//"):
		return newPostgresOutbox(address)
	case rest == "" && (strings.HasSuffix(address, ".db") || strings.HasSuffix(address, ".sqlite")):
		return nil, fmt.Errorf("%q is not %s; did you mean sqlite:%s?", address, known, address)
	}
	// The rest may hold a password.
	return nil, fmt.Errorf("what begins with %q is not %s", cmp.Or(scheme, ":"), known)
}

// A Postgres is an outbox in PostgreSQL.
type Postgres struct {
	*cli.PostgresTable
	box *pgoutbox.Box
}

func newPostgresOutbox(address string) (*Postgres, error) {
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
	schema, _ := pgoutbox.Schema(p.Table) // whose name was checked by New
	return schema
}

func (p *Postgres) Exists(ctx context.Context) (bool, error) {
	// A table of that name may be somebody else's. This one is made together with the rest.
	there, err := p.PostgresTable.Exists(ctx, p.Table+"_meta")
	return there, p.PostgresTable.Explain("look for an outbox", err)
}

func (p *Postgres) Make(ctx context.Context, _ bool) error {
	return p.Explain(p.box.Migrate(ctx))
}

func (p *Postgres) Open(context.Context) (outbox.Box, error) { return p.box, nil }

func (p *Postgres) enqueue(ctx context.Context, messages []outbox.Message) error {
	return p.Explain(p.write(ctx, messages...))
}

func (p *Postgres) write(ctx context.Context, messages ...outbox.Message) error {
	return pgx.BeginFunc(ctx, p.Pool, func(tx pgx.Tx) error {
		return pgoutbox.Writer{Table: p.Table}.Enqueue(ctx, tx, messages...)
	})
}

// enqueueOnce needs no right but INSERT while there is no such row.
func (p *Postgres) enqueueOnce(ctx context.Context, m outbox.Message) (*outbox.Message, error) {
	table := pgx.Identifier(strings.Split(p.Table, ".")).Sanitize()
	var err error
	for range 3 { // the row may be removed between the two statements
		err = p.write(ctx, m)
		var refusal *pgconn.PgError
		if !errors.As(err, &refusal) || refusal.Code != "23505" { // unique_violation
			return nil, p.Explain(err)
		}
		var there *outbox.Message
		there, err = scanRegistered(p.Pool.QueryRow(ctx, registeredRow+table+" WHERE id = $1::text::uuid", pgx.QueryExecModeExec, m.ID))
		if !errors.Is(err, pgx.ErrNoRows) {
			return there, p.Explain(err)
		}
	}
	return nil, p.Explain(err)
}

// registeredRow reads what scanRegistered scans; the name of the table follows.
const registeredRow = `SELECT payload, coalesce(group_id, ''), coalesce(CAST(headers AS TEXT), '{}') FROM `

func scanRegistered(row interface{ Scan(...any) error }) (*outbox.Message, error) {
	var m outbox.Message
	var headers string
	err := row.Scan(&m.Body, &m.Group, &headers)
	if err == nil {
		m.Headers, err = outbox.ParseHeaders([]byte(headers))
	}
	return &m, err
}

func (p *Postgres) Explain(err error) error {
	var foreign *outbox.ForeignTable
	switch {
	case err == nil:
		return nil
	case errors.As(err, &foreign):
		return explainForeign(p, p.Table, foreign)
	case errors.Is(err, outbox.ErrSchema):
		return cli.Codedf(cli.ExitNotFound, "%v (in %s)", err, p)
	case errors.Is(err, context.Canceled):
		return cli.Codedf(cli.ExitFailed, "interrupted")
	}
	return cli.Codedf(cli.ExitFailed, "%s (in %s)%s", cli.InOneLine(err), p, p.Advice(err))
}

func (p *Postgres) Close() {
	_ = p.box.Close()
	p.Pool.Close()
}

// explainForeign offers another name for a table that is in use for something else.
func explainForeign(place place, table string, err *outbox.ForeignTable) error {
	schema, name, qualified := strings.Cut(table, ".")
	other := "tenaq_outbox"
	if name == other || schema == other {
		other = "tenaq_messages"
	}
	if qualified {
		other = schema + "." + other
	}
	return cli.Codedf(cli.ExitRefused, "%s is not an outbox: %s. Nothing was changed. Use another table: tenaq outbox init --table %s, and add --table %[3]s to all outbox commands",
		place, err.Why, other)
}

// A sqliteOutbox is an outbox in a file of SQLite.
type sqliteOutbox struct {
	path  string
	table string            // "" for the usual one
	box   *sqliteoutbox.Box // nil until the file is open
	sql   string            // that makes the tables
}

func NewSQLite(address string) (*sqliteOutbox, error) {
	address, table, _ := strings.Cut(address, "?"+cli.TableParameter+"=")
	place, err := cli.NewSQLitePlace(address)
	if err != nil {
		return nil, err
	}
	schema, err := sqliteoutbox.Schema(table)
	if err != nil {
		return nil, err
	}
	return &sqliteOutbox{path: place.Path, table: table, sql: schema}, nil
}

func (p *sqliteOutbox) String() string { return "table " + p.name() + " of sqlite:" + p.path }

func (p *sqliteOutbox) name() string { return cmp.Or(p.table, "outbox") }

func (p *sqliteOutbox) Schema() string { return p.sql }

func (p *sqliteOutbox) Exists(ctx context.Context) (bool, error) {
	info, err := os.Stat(p.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, cli.Codedf(cli.ExitFailed, "look for an outbox: %v; let this user read the directory, or name another file", err)
	case info.IsDir():
		return false, cli.Usagef("sqlite:%s is a directory; name a file in it", p.path)
	case info.Size() == 0:
		return false, nil
	}
	if _, err := p.Open(ctx); err != nil {
		return false, err
	}
	tables := 0
	err = p.box.DB().QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ? COLLATE NOCASE", p.name()+"_meta").Scan(&tables)
	return tables > 0, p.Explain(err)
}

func (p *sqliteOutbox) Make(ctx context.Context, create bool) error {
	if create {
		file, err := os.OpenFile(p.path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return cli.Codedf(cli.ExitFailed, "make the file of the database: %v; see that the directory exists and that this user may write in it", err)
		}
		_ = file.Close() // nothing was written
	}
	if _, err := os.Stat(p.path); errors.Is(err, fs.ErrNotExist) {
		return cli.Codedf(cli.ExitNotFound, "there is no file %s; name the database to which the program writes, or make an empty one with --create", p.path)
	}
	if _, err := p.Open(ctx); err != nil {
		return err
	}
	return p.Explain(p.box.Migrate(ctx))
}

func (p *sqliteOutbox) Open(context.Context) (outbox.Box, error) {
	if p.box == nil {
		box, err := sqliteoutbox.New(sqliteoutbox.Config{Path: p.path, Table: p.table})
		if err != nil {
			return nil, p.Explain(err)
		}
		p.box = box
	}
	return p.box, nil
}

func (p *sqliteOutbox) enqueue(ctx context.Context, messages []outbox.Message) error {
	return p.Explain(p.transact(ctx, func(tx *sql.Tx) error {
		return sqliteoutbox.Writer{Table: p.table}.Enqueue(ctx, tx, messages...)
	}))
}

func (p *sqliteOutbox) enqueueOnce(ctx context.Context, m outbox.Message) (there *outbox.Message, err error) {
	err = p.transact(ctx, func(tx *sql.Tx) error {
		there, err = scanRegistered(tx.QueryRowContext(ctx, registeredRow+`"`+p.name()+`" WHERE id = ?`, m.ID))
		if errors.Is(err, sql.ErrNoRows) {
			there, err = nil, sqliteoutbox.Writer{Table: p.table}.Enqueue(ctx, tx, m)
		}
		return err
	})
	return there, p.Explain(err)
}

// transact does something in a transaction that has the lock for writing from its beginning.
func (p *sqliteOutbox) transact(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := p.box.DB().BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // which does nothing after a commit
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Explain adds the exit code; package sqliteoutbox says where, and what to do.
func (p *sqliteOutbox) Explain(err error) error {
	var foreign *outbox.ForeignTable
	switch {
	case err == nil:
		return nil
	case errors.As(err, &foreign):
		return explainForeign(p, p.name(), foreign)
	case errors.Is(err, outbox.ErrSchema):
		return cli.Codedf(cli.ExitNotFound, "%v", err)
	case errors.Is(err, context.Canceled):
		return cli.Codedf(cli.ExitFailed, "interrupted")
	}
	return cli.Codedf(cli.ExitFailed, "%s", cli.InOneLine(err))
}

func (p *sqliteOutbox) Close() {
	if p.box != nil {
		_ = p.box.Close()
	}
}
