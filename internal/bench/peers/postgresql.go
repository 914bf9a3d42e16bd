package peers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"tenaq/internal/bench"
	programs "tenaq/internal/child/postgres"
)

// startPostgreSQL starts PostgreSQL with default settings, but for the number of connections.
func startPostgreSQL(ctx context.Context, at *place) (server, error) {
	bin := programs.Programs()
	if bin == "" {
		return nil, errMissing
	}
	as, err := programs.User(at.dir)
	if err != nil {
		return nil, err
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "--pgdata=data",
		"--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions")
	initdb.Dir, initdb.SysProcAttr = at.dir, &syscall.SysProcAttr{Credential: as}
	out, err := initdb.CombinedOutput()
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("it does not run as root, and the user that it runs as cannot enter %s: pass a directory to --dir that all users may enter, such as /tmp", at.dir)
	case err != nil:
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	p, err := startAs(at, as, "QUIT", nil, filepath.Join(bin, "postgres"), "-D", "data",
		"-p", at.port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "max_connections=1000")
	if err != nil {
		return nil, err
	}
	url := "postgres://postgres@127.0.0.1:" + at.port + "/postgres?sslmode=disable"
	once := func(ctx context.Context, sql string) error {
		c, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		_, err = c.Exec(ctx, sql)
		return errors.Join(err, c.Close(ctx))
	}
	return &broker{p,
			func(ctx context.Context, queue string) error {
				return once(ctx, fmt.Sprintf("CREATE TABLE %q (id bigserial PRIMARY KEY, body text NOT NULL)", queue))
			},
			func(queue string) error {
				return once(context.Background(), fmt.Sprintf("DROP TABLE %q", queue))
			},
			func(ctx context.Context, queue string, _ *bench.Work) (client, error) {
				c, err := pgx.Connect(ctx, url)
				return newPostgres(c, queue), err
			}},
		p.ready(ctx, func(ctx context.Context) error { return once(ctx, "SELECT 1") })
}

// A postgres inserts a batch with one statement. It receives, deletes and commits in one
// transaction of two round trips.
type postgres struct {
	c                     *pgx.Conn
	insert, lock, removed string
	ids                   []int64
}

func newPostgres(c *pgx.Conn, queue string) *postgres {
	return &postgres{c,
		fmt.Sprintf("INSERT INTO %q (body) SELECT unnest($1::text[])", queue),
		fmt.Sprintf("SELECT id, body FROM %q ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED", queue),
		fmt.Sprintf("DELETE FROM %q WHERE id = ANY($1)", queue), nil}
}

func (c *postgres) send(bodies []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerMax)
	defer cancel()
	_, err := c.c.Exec(ctx, c.insert, bodies)
	return err
}

func (c *postgres) consume(n int, _ time.Time) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), answerMax)
	defer cancel()
	c.ids = c.ids[:0]
	var begin pgx.Batch
	begin.Queue("BEGIN")
	begin.Queue(c.lock, n).Query(func(rows pgx.Rows) error {
		var id int64
		var body string
		_, err := pgx.ForEachRow(rows, []any{&id, &body}, func() error {
			c.ids = append(c.ids, id)
			return nil
		})
		return err
	})
	if err := c.c.SendBatch(ctx, &begin).Close(); err != nil {
		return 0, err
	}
	var end pgx.Batch
	if len(c.ids) > 0 {
		end.Queue(c.removed, c.ids)
	}
	end.Queue("COMMIT")
	return len(c.ids), c.c.SendBatch(ctx, &end).Close()
}

// close closes the connection below that of pgx, which no other goroutine may use.
func (c *postgres) close() { c.c.PgConn().Conn().Close() }
