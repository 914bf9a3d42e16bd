package main

import (
	"bytes"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"tenaq/claims"
	"tenaq/internal/cli"
	"tenaq/internal/testing/dynamotest"
	"tenaq/internal/testing/pgtest"
	"tenaq/records"
)

// execute runs a command line in this process.
func execute(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &cli.App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}
	code = run(a, t.Context(), args)
	return code, out.String(), errs.String()
}

// wantExecute runs a command line, and wants that exit code and that text in what it prints.
func wantExecute(t *testing.T, code int, text string, args ...string) {
	t.Helper()
	got, stdout, stderr := execute(t, args...)
	if got != code || !strings.Contains(stdout+stderr, text) {
		t.Errorf("tenaq %q: exit code %d, want %d and %q in:\n%s%s", args, got, code, text, stdout, stderr)
	}
}

func TestRecordsInPostgreSQL(t *testing.T) {
	address := pgtest.URL(t)
	t.Setenv("TENAQ_RECORDS", address)

	wantExecute(t, cli.ExitNotFound, "there are no records in table tenaq_records of database", "claims", "list")
	wantExecute(t, cli.ExitNotFound, "there are no records", "records", "sweep")
	wantExecute(t, cli.ExitOK, "made table tenaq_records of database", "records", "init")
	wantExecute(t, cli.ExitOK, "are up to date", "records", "init")
	wantExecute(t, cli.ExitOK, "no claims in table tenaq_records", "claims", "list")
	wantExecute(t, cli.ExitOK, "nothing is stuck", "claims", "sweep")

	// A table of another name, and one in a schema, which has to be there.
	t.Setenv("TENAQ_RECORDS", withTable(t, address, "jobs"))
	wantExecute(t, cli.ExitNotFound, "table jobs of database", "claims", "list")
	wantExecute(t, cli.ExitOK, "made table jobs of", "records", "init")
	t.Setenv("TENAQ_RECORDS", withTable(t, address, "work.records"))
	wantExecute(t, cli.ExitFailed, "create that schema, or name another in tenaq_table", "records", "init")

	// The printed SQL can be applied instead.
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	_, sql, _ := execute(t, "records", "init", "--print")
	if _, err := conn.Exec(t.Context(), "CREATE SCHEMA work;"+sql); err != nil {
		t.Fatalf("apply what is printed: %v", err)
	}
	wantExecute(t, cli.ExitOK, "are up to date", "records", "init")
	wantExecute(t, cli.ExitOK, "no claims in table work.records", "claims", "list")

	// A user who may not create tables learns from the error who can.
	var role string // of its own: roles belong to the server, which other tests use
	if err := conn.QueryRow(t.Context(), "SELECT 'guest_of_' || current_database()").Scan(&role); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE ROLE "+role+" LOGIN; CREATE SCHEMA locked; GRANT USAGE ON SCHEMA locked TO "+role); err != nil {
		t.Fatal(err)
	}
	guest := withUser(t, withTable(t, address, "locked.records"), role)
	wantExecute(t, cli.ExitFailed, `let the owner of the database apply what "tenaq records init --print" prints`, "records", "init", "--records", guest)
}

// withTable returns the address of a database with another table for records.
func withTable(t *testing.T, address, table string) string {
	t.Helper()
	return withAddress(t, address, func(u *url.URL, q url.Values) { q.Set(cli.TableParameter, table) })
}

func withUser(t *testing.T, address, user string) string {
	t.Helper()
	return withAddress(t, address, func(u *url.URL, q url.Values) { q.Del("user"); u.User = url.User(user) })
}

func withAddress(t *testing.T, address string, do func(*url.URL, url.Values)) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	do(u, q)
	u.RawQuery = q.Encode()
	return u.String()
}

// Commands that write records create what is missing, and use what exists.
func TestOpenMakesTheTables(t *testing.T) {
	for name, address := range map[string]string{
		"PostgreSQL": pgtest.URL(t),
		"SQLite":     "sqlite:" + t.TempDir() + "/records.db",
	} {
		t.Run(name, func(t *testing.T) {
			f := &cli.RecordsFlags{Address: address}
			for want := records.Version(0); ; {
				store, err := f.Open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				r, err := store.Put(t.Context(), records.Write{Key: "k", If: want})
				if err != nil {
					t.Fatal(err)
				}
				if err := store.Close(); err != nil {
					t.Error(err)
				}
				if want != 0 {
					break
				}
				want = r.Version
			}
		})
	}
}

// Records contain messages, so other users must not be able to read them.
func TestStateDirectoryIsPrivate(t *testing.T) {
	home := t.TempDir()
	t.Setenv("TENAQ_RECORDS", "")
	t.Setenv("STATE_DIRECTORY", "")
	t.Setenv("XDG_STATE_HOME", home)
	wantExecute(t, cli.ExitOK, "made sqlite:"+home+"/tenaq/records.db", "records", "init")
	info, err := os.Stat(filepath.Join(home, "tenaq"))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory: %v, error %v, want mode 0700", info, err)
	}
}

func TestRecordsInDynamoDB(t *testing.T) {
	client := dynamotest.Client(t)
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", aws.ToString(client.Options().BaseEndpoint))
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1") // which is for other services
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_REGION", "us-east-1")
	table := "records-" + rand.Text() // the emulator is there for all tests
	t.Setenv("TENAQ_RECORDS", "dynamodb:"+table)

	// A table has a price, so nothing but init makes one.
	f := &cli.RecordsFlags{}
	if _, err := f.Open(t.Context()); cli.ExitCode(err) != cli.ExitNotFound {
		t.Fatalf("open: error %v, want one with exit code %d", err, cli.ExitNotFound)
	}
	wantExecute(t, cli.ExitNotFound, "there are no records in the DynamoDB table "+table, "claims", "list")
	wantExecute(t, cli.ExitOK, "made the DynamoDB table "+table, "records", "init")
	wantExecute(t, cli.ExitOK, "are up to date", "records", "init")
	wantExecute(t, cli.ExitOK, "removed 0 records", "records", "sweep")

	store, err := f.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for key, value := range map[string]string{
		"claim/failed": `{"v":1,"state":"failed","owner":"w1/7","attempts":1}`,
		"claim/held":   `{"v":1,"state":"held","owner":"w1/7","attempts":1,"lease_ms":1000}`,
	} {
		if _, err := store.Put(t.Context(), records.Write{Key: key, Value: []byte(value), TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	// There is no clock.
	wantExecute(t, cli.ExitOK, "unknown", "claims", "list")
	wantExecute(t, cli.ExitOK, `"ageSeconds": null`, "claims", "list", "--json")
	wantExecute(t, cli.ExitOK, "unknown whether it has expired", "claims", "show", "held")
	wantExecute(t, cli.ExitUsage, "has no clock, so ages are unknown", "claims", "list", "--older-than", "1m")
	wantExecute(t, cli.ExitRefused, "it is unknown whether its lease has expired", "claims", "release", "held", "--reason", "gone")
	wantExecute(t, cli.ExitUsage, "add --watch 15m", "claims", "sweep")
	_, stdout, _ := execute(t, "claims", "sweep", "--watch", "10ms")
	if !strings.Contains(stdout, "failed") || strings.Contains(stdout, "held") {
		t.Errorf("swept with a short watch: got\n%s\nwant the failed entry, and not the held one whose lease is longer", stdout)
	}
	wantExecute(t, cli.ExitOK, "released held, which was held", "claims", "release", "held", "--reason", "gone", "--force")
}

// Stuck claims are found by the index. Without one the whole table is read, and the command says
// so.
func TestStuckClaimsInDynamoDB(t *testing.T) {
	client := dynamotest.Client(t)
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", aws.ToString(client.Options().BaseEndpoint))
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("TENAQ_RECORDS", "dynamodb:records-"+rand.Text())
	wantExecute(t, cli.ExitOK, "made the DynamoDB table", "records", "init")
	store, err := (&cli.RecordsFlags{}).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	// As an earlier version wrote it, and as this one does.
	if _, err := store.Put(t.Context(), records.Write{Key: "claim/old", Value: []byte(`{"v":1,"state":"failed","owner":"w1/7","attempts":1}`)}); err != nil {
		t.Fatal(err)
	}
	ledger, err := claims.New(claims.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"failed", "done", "held"} {
		c, err := ledger.Acquire(t.Context(), key)
		switch {
		case err != nil:
		case key == "failed":
			err = c.Fail(t.Context(), "no")
		case key == "done":
			err = c.Complete(t.Context(), nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	stuck := func(scans bool, want string, flags ...string) {
		t.Helper()
		code, stdout, stderr := execute(t, append([]string{"claims", "stuck", "--older-than", "0s", "--json"}, flags...)...)
		var document struct{ Claims []struct{ Key string } }
		if err := json.Unmarshal([]byte(stdout), &document); err != nil {
			t.Fatalf("exit code %d, %v in %s%s", code, err, stdout, stderr)
		}
		var keys []string
		for _, c := range document.Claims {
			keys = append(keys, c.Key)
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("stuck with %q are %q, want %q", flags, got, want)
		}
		if said := strings.Contains(stderr, "has no index of stuck claims that this role can use; reading the whole table"); said != scans {
			t.Errorf("with %q it says %q", flags, stderr)
		}
	}
	stuck(true, "old failed")
	stuck(false, "old failed", "--scan")
	wantExecute(t, cli.ExitOK, "are up to date", "records", "init", "--index")
	wantExecute(t, cli.ExitOK, "are up to date", "records", "init", "--index")
	stuck(false, "failed")
	stuck(false, "old failed", "--scan")
	wantExecute(t, cli.ExitOK, "released old", "claims", "release", "old", "--reason", "gone")
	stuck(false, "failed old")
}

// A table called outbox that was made for something else stays as it is, and --table makes an
// outbox beside it.
func TestOutboxBesideForeignTable(t *testing.T) {
	foreign := func(driver, address, sql string) func(*testing.T) {
		return func(t *testing.T) { execSQL(t, driver, address, sql) }
	}
	path, postgres := filepath.Join(t.TempDir(), "app.db"), pgtest.URL(t)
	for _, tt := range []struct {
		name, address, want string
		make                func(*testing.T)
	}{
		{"SQLite", "sqlite:" + path, "its column id is INTEGER, not TEXT",
			foreign("sqlite", path, `CREATE TABLE outbox (id INTEGER PRIMARY KEY, job_id TEXT, event TEXT, sent INTEGER)`)},
		{"PostgreSQL", postgres, "its column id is bigint, not uuid",
			foreign("pgx", postgres, `CREATE TABLE outbox (id bigserial PRIMARY KEY, job_id text, event jsonb, sent boolean)`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.make(t)
			t.Setenv("TENAQ_OUTBOX", tt.address)
			wantExecute(t, cli.ExitRefused, "is not an outbox: it has no column aggregatetype, aggregateid, type, payload, group_id, dedup_id, headers, "+
				"deliver_after, created_at, generation; "+tt.want+". Nothing was changed. Use another table: tenaq outbox init --table tenaq_outbox", "outbox", "init")
			wantExecute(t, cli.ExitNotFound, "there is no outbox in table outbox of", "outbox", "enqueue", "hello", "--to", "q")
			wantExecute(t, cli.ExitNotFound, "check --db, TENAQ_OUTBOX and --table", "outbox", "status")
			wantExecute(t, cli.ExitOK, "created the outbox in table tenaq_outbox of", "outbox", "init", "--table", "tenaq_outbox")
			wantExecute(t, cli.ExitOK, "", "outbox", "enqueue", "hello", "--to", "q", "--table", "tenaq_outbox")
			wantExecute(t, cli.ExitOK, `"pending": 1`, "outbox", "status", "--json", "--table", "tenaq_outbox")
			wantExecute(t, cli.ExitOK, "no replays", "outbox", "replay", "list", "--table", "tenaq_outbox")
			wantExecute(t, cli.ExitOK, "", "outbox", "parked", "list", "--table", "tenaq_outbox")
		})
	}
}

func execSQL(t *testing.T, driver, address, statement string) {
	t.Helper()
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}
