package outbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"tenaq/examples/outbox/studio"
)

// openDatabase makes the tables: in a file, or in a schema of their own in PostgreSQL. Drop removes
// the schema.
func (p *play) openDatabase(ctx context.Context) (drop func(context.Context) error, err error) {
	drop = func(context.Context) error { return nil }
	p.base.Database = "sqlite:" + filepath.Join(p.env.Dir, "studio.db")
	if address := p.env.Database; address != "" {
		at, err := url.Parse(address)
		if err != nil {
			// the error has the password in it
			return drop, errors.New("--db is no URL; write postgres://USER@HOST/DATABASE")
		}
		name := "tenaq_demo_" + strings.ToLower(rand.Text()[:8])
		if err := execute(ctx, address, "CREATE SCHEMA "+name); err != nil {
			return drop, fmt.Errorf("make a schema for the demo: %w; give --db a database in which this user may make one", err)
		}
		p.env.Progress.Note("the tables are in the schema %s", name)
		drop = func(ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			return execute(ctx, address, "DROP SCHEMA "+name+" CASCADE")
		}
		settings := at.Query()
		settings.Set("search_path", name)
		at.RawQuery = settings.Encode()
		p.base.Database = at.String()
	}
	if p.studio, err = studio.Open(ctx, p.base.Database); err != nil {
		return drop, err
	}
	if _, err := p.studio.DB.ExecContext(ctx, usualJobs); err != nil {
		return drop, err
	}
	p.ledger, err = newLedger(p.studio)
	return drop, err
}

func execute(ctx context.Context, address, statement string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, statement)
	return err
}

// now is the time by the clock that the outbox goes by.
func (p *play) now(ctx context.Context) (now time.Time, err error) {
	if !p.studio.Shared {
		return time.Now().Truncate(time.Millisecond), nil
	}
	return now, p.studio.DB.QueryRowContext(ctx, `SELECT clock_timestamp()`).Scan(&now)
}

// number asks for a number.
func (p *play) number(ctx context.Context, query string, args ...any) (n int, err error) {
	return n, p.studio.DB.QueryRowContext(ctx, query, args...).Scan(&n)
}

// eachJob calls back with every job in the table.
func (p *play) eachJob(ctx context.Context, see func(job string) error) error {
	rows, err := p.studio.DB.QueryContext(ctx, `SELECT job_id FROM jobs`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var job string
		if err := rows.Scan(&job); err != nil {
			return err
		}
		if err := see(job); err != nil {
			return err
		}
	}
	return rows.Err()
}

// wrong counts the files of jobs that are wrong or missing.
func (p *play) wrong(jobs []string) (n int) {
	for _, job := range jobs {
		got, err := os.ReadFile(p.result(job))
		if err != nil || string(got) != string(studio.Transcode(p.uploads[job].Video, good)) {
			n++
		}
	}
	return n
}
