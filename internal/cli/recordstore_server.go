package cli

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/aws/smithy-go"

	"tenaq/records"
	"tenaq/records/serverrecords"
)

// ServerRecords is the address of the records of the server of the command.
const ServerRecords = "server"

// A serverPlace is the records that a tenaq server keeps beside its queues. They need no setup.
type serverPlace struct{ client *Client }

func (p *serverPlace) String() string { return "the records of " + p.client.Endpoint.String() }

func (p *serverPlace) Schema() string { return "" }

func (p *serverPlace) Exists(context.Context) (bool, error) { return true, nil }

func (p *serverPlace) Make(context.Context) error { return nil }

func (p *serverPlace) Open(context.Context) (records.Store, error) {
	store, err := serverrecords.New(serverrecords.Config{Client: p.client})
	if err != nil {
		return nil, Usagef("%s keeps no records; name another store with --records",
			p.client.Endpoint)
	}
	return store, nil
}

func (p *serverPlace) Close() {}

// IsServerPlace reports whether a place is the records of the server of the command.
func IsServerPlace(p RecordsPlace) bool {
	_, is := p.(*serverPlace)
	return is
}

// serverPlace connects to the server of the command.
func (f *RecordsFlags) serverPlace(ctx context.Context) (*serverPlace, error) {
	if f.Connect == nil {
		return nil, Usagef("this command uses no server; name another store with --records")
	}
	c, err := f.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &serverPlace{c}, nil
}

// usualPlace is the place of records that no address names: the file of an earlier run if there is
// one, or else the server of the command if that keeps records.
//
// The file comes first, because its claims must not be forgotten when a server begins to keep
// records.
func (f *RecordsFlags) usualPlace(ctx context.Context) (RecordsPlace, error) {
	dir, _, noHome := DefaultDataDir(os.Getenv)
	file := &SQLitePlace{Path: filepath.Join(dir, "records.db"), dir: dir}
	if noHome == nil {
		if there, err := file.Exists(ctx); there || err != nil || f.Connect == nil {
			return file, err
		}
	}
	if f.Connect != nil {
		server, err := f.offered(ctx)
		if server != nil || err != nil {
			return server, err
		}
	}
	if noHome != nil {
		return nil, Usagef("there is no home directory for records; set --records or TENAQ_RECORDS")
	}
	return file, nil
}

// offered returns the place on the server of the command; nil if that keeps no records.
func (f *RecordsFlags) offered(ctx context.Context) (RecordsPlace, error) {
	server, err := f.serverPlace(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := server.client.Bound(ctx, 0)
	defer cancel()
	offered, err := serverrecords.Offered(ctx, server.client)
	switch {
	case err != nil:
		answer, answered := errors.AsType[smithy.APIError](err)
		err = server.client.Explain("look for records", "", WithCause(ctx, err))
		if answered && isDenial(ErrorKind(answer)) {
			return nil, Codedf(ExitCode(err),
				"%w: records on the server need tenaq:ReadRecords and tenaq:WriteRecords; or keep them in a file, as earlier versions do, with --records sqlite:FILE",
				err)
		}
		return nil, Codedf(ExitCode(err), "%w; or name another store with --records", err)
	case !offered:
		return nil, nil
	}
	return server, nil
}

// OpenLogged is Open for commands that work for long. It logs which store they use.
//
// It warns if that is the file of an earlier run although the server keeps records: workers on
// other machines may use those, and two ledgers let work run twice.
func (f *RecordsFlags) OpenLogged(ctx context.Context, log *slog.Logger) (*RecordStore, error) {
	store, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	log.Info("records in use", "records", store.Place)
	if _, file := store.Place.(*SQLitePlace); !file || !f.IsUsual() || f.Connect == nil {
		return store, nil
	}
	if server, err := f.offered(ctx); err == nil && server != nil {
		log.Warn("a file of records exists here, so the records of the server are not used: workers elsewhere may use those and repeat work; "+
			"name one place for all workers with --records or TENAQ_RECORDS",
			"records", store.Place, "server_records", server)
	}
	return store, nil
}
