package sqliterecords

import "strings"

// applicationID marks the file as a file of records: "tenq", in the field of SQLite for this
// purpose.
const applicationID = 0x74656e71

// migrations update the schema from the version that is their index to the next. They never change;
// a change of the schema is a new one. The last statement of each sets the new version.
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

// Schema returns the SQL that creates an empty file as New does, to read it or to create the file
// with other tools.
func Schema() string {
	return "PRAGMA journal_mode = WAL;\nBEGIN IMMEDIATE;\n\n" + strings.Join(migrations, "\n") +
		"\nCOMMIT;\n"
}
