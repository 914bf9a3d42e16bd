package main

import (
	"context"

	"tenaq/records"
	"tenaq/records/pgrecords"
)

// A postgresPlace keeps records in a table of PostgreSQL.
type postgresPlace struct {
	*postgresTable
	store *pgrecords.Store
}

func newPostgresPlace(address string) (*postgresPlace, error) {
	table, err := newPostgresTable(address, "tenaq_records", "tenaq records init")
	if err != nil {
		return nil, err
	}
	store, err := pgrecords.New(table.pool, pgrecords.Options{Table: table.table})
	if err != nil {
		table.pool.Close()
		return nil, err
	}
	return &postgresPlace{table, store}, nil
}

func (p *postgresPlace) exists(ctx context.Context) (bool, error) {
	there, err := p.postgresTable.exists(ctx, p.table)
	return there, p.explain("look for records", err)
}

func (p *postgresPlace) make(ctx context.Context) error {
	return p.explain("make the tables", p.store.Migrate(ctx))
}

func (p *postgresPlace) open(context.Context) (records.Store, error) { return p.store, nil }

func (p *postgresPlace) schema() string { return p.store.Schema() }

func (p *postgresPlace) close() { p.pool.Close() }
