package sqliterecords_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"tenaq/records"
	"tenaq/records/sqliterecords"
)

// Two programs want the same record. One gets it, and the other learns which program was first.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqliterecords.New(sqliterecords.Config{Path: filepath.Join(dir, "records.db")})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	ctx := context.Background()
	for _, name := range []string{"anna", "ben"} {
		_, err := store.Put(ctx, records.Write{Key: "orders/17", Value: []byte(name)})
		var conflict *records.Conflict
		switch {
		case errors.As(err, &conflict):
			fmt.Printf("%s: %s has it\n", name, conflict.Current.Value)
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Printf("%s: it is mine\n", name)
		}
	}
	// Output:
	// anna: it is mine
	// ben: anna has it
}
