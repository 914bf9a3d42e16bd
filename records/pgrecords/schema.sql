-- The tables and functions of tenaq's records. Apply it in one transaction, as a role that may create
-- tables and functions here; again is harmless.

-- Two that apply it at once take turns.
SELECT pg_advisory_xact_lock(hashtextextended('tenaq records {{table}}', 0));

DO $$
DECLARE
	found int;
BEGIN
	IF current_setting('server_encoding') <> 'UTF8' THEN
		RAISE EXCEPTION 'tenaq keeps records in databases with the encoding UTF8 only, and this one has %; create one with ENCODING UTF8 TEMPLATE template0',
			current_setting('server_encoding');
	END IF;
	IF to_regclass('{{meta}}') IS NOT NULL THEN
		SELECT schema INTO found FROM {{meta}};
		IF found > {{schema}} THEN
			RAISE EXCEPTION 'the tables of {{table}} have schema %, which is newer than {{schema}}, the newest that this program knows; run a newer version of the program', found;
		END IF;
	END IF;
END $$;

-- A row is a record, or what remains of one that expired or was deleted, until it is swept: its version.
CREATE TABLE IF NOT EXISTS {{table}} (
	key     text COLLATE "C" PRIMARY KEY,
	value   bytea NOT NULL,
	version bigint NOT NULL CHECK (version > 0),
	written timestamptz NOT NULL,
	expires timestamptz -- null: never; -infinity: deleted
);

-- Sweeps go by it.
CREATE INDEX IF NOT EXISTS {{index}} ON {{table}} (expires) WHERE expires IS NOT NULL;

-- One row. No record that was swept had a version above the floor.
CREATE TABLE IF NOT EXISTS {{meta}} (
	one    boolean PRIMARY KEY DEFAULT true CHECK (one),
	schema int NOT NULL,
	floor  bigint NOT NULL DEFAULT 0
);

-- The clock that everything here goes by.
CREATE OR REPLACE FUNCTION {{now}}() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT clock_timestamp()';

CREATE OR REPLACE FUNCTION {{micros}}(d interval) RETURNS bigint LANGUAGE sql IMMUTABLE
AS 'SELECT (extract(epoch FROM d) * 1000000)::bigint';

-- Begins a write: its commit will be answered only when it is on disk, whatever the settings of the
-- database, the role or the session. What waits for more than that stays.
CREATE OR REPLACE FUNCTION {{begin}}() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
END $$;

-- Writes a record if it has the version expected, 0 for none, and returns it; or returns what is there,
-- with done = false, or no row when there is nothing. Times are microseconds. It relies on every query of
-- a function seeing what was committed before that query; under stricter isolation it fails with
-- serialization_failure, having written nothing, when that would have mattered.
CREATE OR REPLACE FUNCTION {{put}}(k text, v bytea, expected bigint, lifetime bigint)
RETURNS TABLE (done boolean, value bytea, version bigint, age bigint, ttl bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
	was   {{table}};
	at    timestamptz;
	next  bigint;
	floor bigint;
	rest  interval := (lifetime || ' microseconds')::interval; -- null: for ever
BEGIN
	PERFORM {{begin}}();
	LOOP
		-- Whoever holds the row decides; waiting for him is part of it. The clock is read afterwards.
		SELECT * INTO was FROM {{table}} r WHERE r.key = k FOR UPDATE;
		at := {{now}}();
		next := {{micros}}(at - 'epoch'::timestamptz);
		IF was.key IS NOT NULL THEN
			IF was.expires IS NULL OR was.expires > at THEN
				IF was.version <> expected THEN
					RETURN QUERY SELECT false, was.value, was.version, {{micros}}(at - was.written), {{micros}}(was.expires - at);
					RETURN;
				END IF;
			ELSIF expected <> 0 THEN
				RETURN;
			END IF;
			next := greatest(next, was.version + 1);
			UPDATE {{table}} r SET value = v, version = next, written = at, expires = at + rest WHERE r.key = k;
			RETURN QUERY SELECT true, NULL::bytea, next, 0::bigint, lifetime;
			RETURN;
		ELSIF expected <> 0 THEN
			RETURN;
		END IF;

		INSERT INTO {{table}} AS r VALUES (k, v, next, at, at + rest) ON CONFLICT DO NOTHING;
		IF FOUND THEN
			-- An earlier record of this key may have been swept as late as just now, and by then the floor
			-- knew its version. A frozen view of the floor would not show that; locking it fails then.
			IF current_setting('transaction_isolation') <> 'read committed' THEN
				PERFORM 1 FROM {{meta}} FOR SHARE;
			END IF;
			SELECT m.floor INTO STRICT floor FROM {{meta}} m;
			IF next <= floor THEN
				next := floor + 1;
				UPDATE {{table}} r SET version = next WHERE r.key = k;
			END IF;
			RETURN QUERY SELECT true, NULL::bytea, next, 0::bigint, lifetime;
			RETURN;
		END IF;
		-- Somebody else was faster. His row is there by now, if it is not gone again.
	END LOOP;
END $$;

-- Deletes a record if it has the version expected. Otherwise it returns like {{put}}.
CREATE OR REPLACE FUNCTION {{delete}}(k text, expected bigint)
RETURNS TABLE (done boolean, value bytea, version bigint, age bigint, ttl bigint)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
	was {{table}};
	at  timestamptz;
BEGIN
	PERFORM {{begin}}();
	SELECT * INTO was FROM {{table}} r WHERE r.key = k FOR UPDATE;
	at := {{now}}();
	IF was.key IS NULL OR was.expires <= at THEN
		RETURN;
	ELSIF was.version <> expected THEN
		RETURN QUERY SELECT false, was.value, was.version, {{micros}}(at - was.written), {{micros}}(was.expires - at);
		RETURN;
	END IF;
	UPDATE {{table}} r SET value = '', expires = '-infinity' WHERE r.key = k;
	RETURN QUERY SELECT true, NULL::bytea, was.version, 0::bigint, 0::bigint;
END $$;

-- Removes up to most rows of records that expired, and returns how many there were; and what remains of
-- deleted ones, which is small, up to ten times as many. Rows that somebody is writing to are left for
-- another time.
CREATE OR REPLACE FUNCTION {{sweep}}(most bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	at      timestamptz := {{now}}();
	expired bigint;
	top     bigint;
BEGIN
	PERFORM {{begin}}();
	WITH old AS MATERIALIZED (
		SELECT r.key FROM {{table}} r WHERE r.expires > '-infinity' AND r.expires <= at
		ORDER BY r.expires LIMIT most FOR UPDATE SKIP LOCKED
	), deleted AS MATERIALIZED (
		SELECT r.key FROM {{table}} r WHERE r.expires = '-infinity' LIMIT 10 * most FOR UPDATE SKIP LOCKED
	), swept AS (
		DELETE FROM {{table}} r WHERE r.key IN (SELECT o.key FROM old o UNION ALL SELECT d.key FROM deleted d)
		AND r.expires <= at RETURNING r.expires, r.version
	)
	SELECT count(*) FILTER (WHERE s.expires > '-infinity'), max(s.version) INTO expired, top FROM swept s;
	UPDATE {{meta}} m SET floor = top WHERE m.floor < top;
	RETURN expired;
END $$;

INSERT INTO {{meta}} (schema) VALUES ({{schema}}) ON CONFLICT (one) DO UPDATE SET schema = excluded.schema;
