package sqliterecords

import "strings"

// applicationID marks the file as one of records: "tenq", in a field that SQLite has for that.
const applicationID = 0x74656e71

// migrations take the schema from the version that is their index to the next. They never change;
// what has to be different is a further one. The last statement of each says which version it leads
// to.
var migrations = []string{
	`CREATE TABLE IF NOT EXISTS records (
	key     TEXT    NOT NULL PRIMARY KEY, -- UTF-8, in the order of its bytes
	value   BLOB    NOT NULL,
	version INTEGER NOT NULL,             -- of this write; a later one of the key has a larger one
	written INTEGER NOT NULL,             -- microseconds since 1970, by the clock of the machine
	expires INTEGER                       -- likewise; NULL is never
) STRICT;
CREATE INDEX IF NOT EXISTS records_by_expiry ON records (expires) WHERE expires IS NOT NULL;

-- The largest version of all records that were deleted or swept: where a key has no record, the next one
-- gets a larger version than any before it, even if the clock was set back.
CREATE TABLE IF NOT EXISTS floor (
	only    INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
	version INTEGER NOT NULL
) STRICT;
INSERT OR IGNORE INTO floor (only, version) VALUES (1, 0);

PRAGMA application_id = 1952804465;
PRAGMA user_version = 1;
`,
}

// Schema returns the SQL that creates an empty file as Open does, for who wants to see it or to
// create the file with other tools.
func Schema() string {
	return "PRAGMA journal_mode = WAL;\nBEGIN IMMEDIATE;\n\n" + strings.Join(migrations, "\n") +
		"\nCOMMIT;\n"
}
