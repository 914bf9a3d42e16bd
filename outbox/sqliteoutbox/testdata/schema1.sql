-- The tables and triggers of an outbox. Apply it in one transaction; again is harmless. Whoever inserts into
-- {{name}} has nothing else to do.

CREATE TABLE IF NOT EXISTS {{table}} (
	id            TEXT NOT NULL PRIMARY KEY DEFAULT (lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' ||
	              substr(hex(randomblob(2)), 2) || '-a' || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6)))),
	aggregatetype TEXT NOT NULL,            -- the queue
	aggregateid   TEXT NOT NULL,            -- what the message is about
	type          TEXT NOT NULL DEFAULT '', -- of event
	payload       TEXT NOT NULL,            -- the body of the message
	group_id      TEXT,                     -- the message group; that of a FIFO queue is aggregateid without
	dedup_id      TEXT,                     -- names the work; id without
	headers       TEXT,                     -- a JSON object of strings
	deliver_after TEXT,                     -- as the date functions of SQLite read it, in UTC unless it says otherwise
	created_at    TEXT DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
	generation    INTEGER,
	CONSTRAINT "id is a UUID" CHECK (id GLOB '????????-????-????-????-????????????'
		AND length(replace(id, '-', '')) = 32 AND replace(id, '-', '') NOT GLOB '*[^0-9a-fA-F]*'),
	CONSTRAINT "aggregatetype names a queue" CHECK (typeof(aggregatetype) = 'text' AND aggregatetype <> ''),
	CONSTRAINT "payload is text, and not empty" CHECK (typeof(payload) = 'text' AND payload <> ''),
	CONSTRAINT "headers are a JSON object" CHECK
		(CASE WHEN headers IS NULL THEN 1 WHEN json_valid(headers) THEN json_type(headers) = 'object' ELSE 0 END),
	CONSTRAINT "deliver_after is a time, as 2006-01-02T15:04:05Z" CHECK (deliver_after IS NULL OR julianday(deliver_after) IS NOT NULL),
	CONSTRAINT "generation is a number" CHECK (generation IS NULL OR typeof(generation) = 'integer' AND generation >= 0)
);

-- What relays know about rows that were not sent. Times are milliseconds since 1970, by the clock of the machine.
CREATE TABLE IF NOT EXISTS {{pending}} (
	seq         INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of rows
	id          TEXT NOT NULL UNIQUE,
	queue       TEXT NOT NULL,
	stream      TEXT,             -- queue and group; NULL without an order to keep
	head        INTEGER NOT NULL, -- 1: no row of its stream that is not parked is before it
	bytes       INTEGER NOT NULL,
	due         INTEGER NOT NULL,
	relay       TEXT,             -- who has it in hand
	lease_until INTEGER,
	attempts    INTEGER NOT NULL DEFAULT 0,
	reason      TEXT,
	parked_at   INTEGER
);
-- Heads that nobody has: of these, and of leases that have ended, the claims take. What is behind a head is found
-- by its stream, so a stream costs a claim nothing while its head is in hand or waits.
CREATE INDEX IF NOT EXISTS {{free}} ON {{pending}} (queue, due, seq) WHERE head = 1 AND relay IS NULL AND parked_at IS NULL;
CREATE INDEX IF NOT EXISTS {{leased}} ON {{pending}} (lease_until, relay) WHERE relay IS NOT NULL;
CREATE INDEX IF NOT EXISTS {{streams}} ON {{pending}} (stream, seq, due) WHERE stream IS NOT NULL AND parked_at IS NULL;
CREATE INDEX IF NOT EXISTS {{parked}} ON {{pending}} (parked_at, seq) WHERE parked_at IS NOT NULL;

CREATE TABLE IF NOT EXISTS {{sent}} (
	id         TEXT NOT NULL PRIMARY KEY,
	sent_at    INTEGER NOT NULL,
	queue      TEXT, -- which has it
	message_id TEXT, -- there
	attempts   INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS {{sent_at}} ON {{sent}} (sent_at);

CREATE TABLE IF NOT EXISTS {{meta}} (
	only   INTEGER NOT NULL PRIMARY KEY CHECK (only = 1),
	schema INTEGER NOT NULL
);
INSERT INTO {{meta}} (only, schema) VALUES (1, {{schema}}) ON CONFLICT (only) DO UPDATE SET schema = max(schema, excluded.schema);

-- These run in the program that writes, whatever its language and its version of SQLite, and use nothing new.

-- REPLACE runs no trigger for the row that it removes, so its traces are still there.
DROP TRIGGER IF EXISTS {{insert}};
CREATE TRIGGER {{insert}} AFTER INSERT ON {{table}} BEGIN
	SELECT RAISE(ABORT, 'outbox: a row cannot be replaced; delete it and insert another')
		WHERE EXISTS (SELECT 1 FROM {{pending}} WHERE id = NEW.id) OR EXISTS (SELECT 1 FROM {{sent}} WHERE id = NEW.id);
	INSERT INTO {{pending}} (id, queue, stream, head, bytes, due)
	SELECT NEW.id, NEW.aggregatetype, s.stream,
		s.stream IS NULL OR NOT EXISTS (SELECT 1 FROM {{pending}} AS p WHERE p.stream = s.stream AND p.parked_at IS NULL),
		length(CAST(NEW.payload AS BLOB)) + ifnull(length(CAST(NEW.headers AS BLOB)), 0),
		CAST(round((julianday(ifnull(NEW.deliver_after, 'now')) - 2440587.5) * 86400000.0) AS INTEGER)
	FROM (SELECT CASE
		WHEN NEW.group_id <> '' THEN NEW.aggregatetype || char(31) || NEW.group_id
		WHEN substr(NEW.aggregatetype, -5) = '.fifo' THEN NEW.aggregatetype || char(31) || NEW.aggregateid
	END AS stream) AS s;
END;

-- What is in the bookkeeping may not change behind its back. A row that is parked can be mended: its content, and
-- then released.
DROP TRIGGER IF EXISTS {{update}};
CREATE TRIGGER {{update}} BEFORE UPDATE OF id, aggregatetype, aggregateid, group_id, deliver_after ON {{table}} BEGIN
	SELECT RAISE(ABORT, 'outbox: where a row goes, and when, cannot be changed; delete it and insert another')
		WHERE NEW.id IS NOT OLD.id OR NEW.aggregatetype IS NOT OLD.aggregatetype OR NEW.aggregateid IS NOT OLD.aggregateid
			OR NEW.group_id IS NOT OLD.group_id OR NEW.deliver_after IS NOT OLD.deliver_after;
END;

DROP TRIGGER IF EXISTS {{delete}};
CREATE TRIGGER {{delete}} AFTER DELETE ON {{table}} BEGIN
	DELETE FROM {{pending}} WHERE id = OLD.id;
	DELETE FROM {{sent}} WHERE id = OLD.id;
END;

-- When a head goes, the next row of its stream is the head.
DROP TRIGGER IF EXISTS {{gone}};
CREATE TRIGGER {{gone}} AFTER DELETE ON {{pending}} WHEN OLD.head = 1 AND OLD.stream IS NOT NULL BEGIN
	UPDATE {{pending}} SET head = 1
	WHERE seq = (SELECT seq FROM {{pending}} WHERE stream = OLD.stream AND parked_at IS NULL ORDER BY seq LIMIT 1);
END;

DROP TRIGGER IF EXISTS {{aside}};
CREATE TRIGGER {{aside}} AFTER UPDATE OF parked_at ON {{pending}} WHEN OLD.head = 1 AND NEW.parked_at IS NOT NULL BEGIN
	UPDATE {{pending}} SET head = 0 WHERE seq = NEW.seq;
	UPDATE {{pending}} SET head = 1
	WHERE seq = (SELECT seq FROM {{pending}} WHERE stream = OLD.stream AND parked_at IS NULL ORDER BY seq LIMIT 1);
END;
