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

	"tenaq/cmd/tenaq/demo/stage"
	"tenaq/examples/outbox/studio"
)

// openDatabase makes the tables: in a file, or in a schema of their own in PostgreSQL. What it
// returns closes the database and drops the schema.
func (p *play) openDatabase() (closeAll func()) {
	p.base.Database = "sqlite:" + filepath.Join(p.Dir, "studio.db")
	schema := ""
	if p.Database != "" {
		at, err := url.Parse(p.Database)
		if err != nil { // which has the password in it
			p.Must(errors.New("--db is not a URL; write postgres://USER@HOST/DATABASE"))
		}
		schema = "tenaq_demo_" + strings.ToLower(rand.Text()[:8])
		if err := p.execute("CREATE SCHEMA " + schema); err != nil {
			p.Must(fmt.Errorf("create a schema for the demo: %w; give --db a database in which this user may create one", err))
		}
		p.Progress.Note("the tables are in the schema %s", schema)
		settings := at.Query()
		settings.Set("search_path", schema)
		at.RawQuery = settings.Encode()
		p.base.Database = at.String()
	}
	closeAll = func() {
		if p.studio != nil {
			p.studio.Close()
		}
		if schema != "" && !p.Keep {
			p.Fail(p.execute("DROP SCHEMA " + schema + " CASCADE"))
		}
	}
	err := p.prepare()
	if err != nil {
		closeAll()
	}
	p.Must(err)
	return closeAll
}

func (p *play) prepare() (err error) {
	if p.studio, err = studio.Open(p.Ctx, p.base.Database); err != nil {
		return err
	}
	if _, err = p.studio.DB.ExecContext(p.Ctx, usualJobs); err != nil {
		return err
	}
	p.ledger, err = newLedger(p.studio)
	return err
}

// execute runs a statement in PostgreSQL, also after an interrupt.
func (p *play) execute(statement string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.Ctx), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.Database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	return err
}

// now is the time by the clock that the outbox goes by.
func (p *play) now() (now time.Time) {
	if !p.studio.Shared {
		return time.Now().Truncate(time.Millisecond)
	}
	p.Must(p.studio.DB.QueryRowContext(p.Ctx, `SELECT clock_timestamp()`).Scan(&now))
	return now
}

// number asks for a number.
func (p *play) number(query string, args ...any) (n int) {
	p.Must(p.studio.DB.QueryRowContext(p.Ctx, query, args...).Scan(&n))
	return n
}

// allJobs returns every job in the table.
func (p *play) allJobs() (jobs []string) {
	rows, err := p.studio.DB.QueryContext(p.Ctx, `SELECT job_id FROM jobs`)
	p.Must(err)
	defer rows.Close()
	for rows.Next() {
		var job string
		p.Must(rows.Scan(&job))
		jobs = append(jobs, job)
	}
	p.Must(rows.Err())
	return jobs
}

// wrong counts the files of jobs that are wrong or missing.
func (p *play) wrong(jobs ...string) int {
	return stage.Count(jobs, func(job string) bool {
		got, err := os.ReadFile(p.result(job))
		return err != nil || string(got) != string(studio.Transcode(p.uploads[job].Video, good))
	})
}
