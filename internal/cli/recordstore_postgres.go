package cli

import (
	"context"

	"tenaq/records"
	"tenaq/records/pgrecords"
)

type postgresPlace struct {
	*PostgresTable
	store *pgrecords.Store
}

func newPostgresPlace(address string) (*postgresPlace, error) {
	table, err := NewPostgresTable(address, "tenaq_records", "tenaq records init")
	if err != nil {
		return nil, err
	}
	store, err := pgrecords.New(pgrecords.Config{Pool: table.Pool, Table: table.Table})
	if err != nil {
		table.Pool.Close()
		return nil, err
	}
	return &postgresPlace{table, store}, nil
}

func (p *postgresPlace) Exists(ctx context.Context) (bool, error) {
	there, err := p.PostgresTable.Exists(ctx, p.Table)
	return there, p.Explain("look for records", err)
}

func (p *postgresPlace) Make(ctx context.Context) error {
	return p.Explain("make the tables", p.store.Migrate(ctx))
}

func (p *postgresPlace) Open(context.Context) (records.Store, error) { return p.store, nil }

func (p *postgresPlace) Schema() string {
	schema, _ := pgrecords.Schema(p.Table) // whose name was checked by New
	return schema
}

func (p *postgresPlace) Close() { p.Pool.Close() }
