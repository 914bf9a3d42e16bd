-- The tables of a tenaq outbox, and what keeps its books. Apply it in one transaction, as a role that may
-- create tables, functions and triggers here; again is harmless.

-- Two that apply it at once take turns.
SELECT pg_advisory_xact_lock(hashtextextended('tenaq outbox {{where}}', 0));

-- Everything is made in the schema of the table, and found there whatever the search_path of those who
-- write and relay.
SELECT set_config('search_path', quote_ident(coalesce(
	(SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass('{{where}}')),
	nullif('{{in}}', ''), current_schema())) || ', pg_temp', true);

DO $$
DECLARE
	found   int;
	problem text; -- why what is there is not an outbox
BEGIN
	IF current_setting('search_path') NOT LIKE '%, pg_temp' THEN
		RAISE EXCEPTION 'the schema of an outbox has to be applied in one transaction; with psql use -1 -v ON_ERROR_STOP=1';
	END IF;
	IF current_schema() LIKE 'pg_temp%' OR current_schema() ~ '[''$\\]' THEN
		RAISE EXCEPTION 'there is no schema with a plain name to make {{table}} in; create it, or name another one';
	END IF;
	IF current_setting('server_encoding') <> 'UTF8' THEN
		RAISE EXCEPTION 'tenaq keeps outboxes in databases with the encoding UTF8 only, and this one has %; create one with ENCODING UTF8 TEMPLATE template0',
			current_setting('server_encoding');
	END IF;
	IF EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = to_regclass('{{meta}}') AND a.attname = 'schema') THEN
		SELECT schema INTO found FROM {{meta}};
		IF found > {{version}} THEN
			RAISE EXCEPTION 'the tables of {{table}} have schema %, which is newer than {{version}}, the newest that this program knows; run a newer version of the program', found;
		END IF;
		IF found = 1 THEN -- before anything else is locked: it waits for those who are at it
			ALTER TABLE {{sent}} ADD COLUMN IF NOT EXISTS seq bigint;
		END IF;
	ELSE
		-- Tables of these names that somebody else made stay as they are.
		SELECT nullif(concat_ws('; ',
			'it is no ordinary table' || CASE WHEN c.relkind <> 'r' THEN '' END,
			'it has no column ' || w.missing,
			w.wrong,
			'its column id is not unique' || CASE WHEN w.id IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index i
				WHERE i.indrelid = c.oid AND i.indisunique AND i.indnkeyatts = 1 AND i.indkey[0] = w.id AND i.indpred IS NULL) THEN '' END
		), '') INTO problem
		FROM pg_class c, LATERAL (
			SELECT string_agg(want.name, ', ' ORDER BY want.n) FILTER (WHERE a.attnum IS NULL) AS missing,
				string_agg(format('its column %s is %s, not %s', want.name, format_type(a.atttypid, NULL), want.types[1]), '; ' ORDER BY want.n)
					FILTER (WHERE format_type(a.atttypid, NULL) <> ALL (want.types)) AS wrong,
				max(a.attnum) FILTER (WHERE want.name = 'id') AS id
			FROM (VALUES
				(1, 'id', '{uuid}'::text[]), (2, 'aggregatetype', '{text, character varying}'), (3, 'aggregateid', '{text, character varying}'),
				(4, 'type', '{text, character varying}'), (5, 'payload', '{text, character varying}'), (6, 'group_id', '{text, character varying}'),
				(7, 'dedup_id', '{text, character varying}'), (8, 'headers', '{jsonb}'), (9, 'deliver_after', '{timestamp with time zone}'),
				(10, 'created_at', '{timestamp with time zone}'), (11, 'generation', '{integer}')
			) AS want (n, name, types)
			LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = want.name AND a.attnum > 0 AND NOT a.attisdropped
		) w WHERE c.oid = to_regclass('{{table}}');
		SELECT concat_ws('; ', problem, 'these names are taken as well: ' || string_agg(t.name, ', ')) INTO problem
		FROM unnest(ARRAY['{{pending}}', '{{sent}}', '{{replays}}', '{{replay_rows}}', '{{seq}}', '{{turns}}', '{{waiting}}', '{{meta}}']) AS t (name)
		WHERE to_regclass(t.name) IS NOT NULL;
		IF problem <> '' THEN
			RAISE EXCEPTION USING ERRCODE = 'TNQ01', MESSAGE = 'the table {{table}} is not an outbox: ' || problem, DETAIL = problem,
				HINT = 'give the outbox another name, or rename that table';
		END IF;
	END IF;
END $$;

-- What programs write, in any language, and nobody changes afterwards. The columns up to payload are those of
-- Debezium's outbox event router.
CREATE TABLE IF NOT EXISTS {{table}} (
	id            uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	aggregatetype text NOT NULL CHECK (octet_length(aggregatetype) <= 1024), -- the queue
	aggregateid   text NOT NULL,                                             -- the key
	type          text NOT NULL DEFAULT '',
	payload       text NOT NULL,                                             -- the body
	group_id      text,
	dedup_id      text,
	headers       jsonb CHECK (jsonb_typeof(headers) = 'object'),
	deliver_after timestamptz,
	created_at    timestamptz NOT NULL DEFAULT now(),
	generation    int
);

-- One row for each that is neither sent nor discarded. Triggers write it, and relays. Rows come and go, so it
-- is vacuumed often and quickly, and never cut off at its end, for which everybody would have to wait.
CREATE TABLE IF NOT EXISTS {{pending}} (
	id          uuid PRIMARY KEY,
	seq         bigint NOT NULL,                  -- within a stream the order of the commits
	queue       text COLLATE "C" NOT NULL,
	stream      text COLLATE "C",                 -- null: the row has no order to keep
	bytes       bigint NOT NULL,                  -- of body and headers
	state       text COLLATE "C" NOT NULL CHECK (state IN ('ready', 'waiting', 'leased', 'parked')),
	due         timestamptz NOT NULL,             -- since when, or from when on, it may be sent
	relay       text COLLATE "C",                 -- who had the last lease, until its outcome is known
	lease_until timestamptz,
	attempts    int NOT NULL DEFAULT 0,
	reason      text,
	parked_at   timestamptz CHECK ((parked_at IS NOT NULL) = (state = 'parked'))
) WITH (
	autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
	autovacuum_vacuum_insert_threshold = -1, autovacuum_analyze_scale_factor = 0.2, vacuum_truncate = false
);

-- A row is ready, waiting for its time, or leased, and each state has its index: so neither rows that wait nor
-- those in the hands of relays are in the way of who looks for ready ones. Nothing moves a row from waiting to
-- ready, or takes away a lease that has ended, but the next claim.
CREATE INDEX IF NOT EXISTS {{pending_free}} ON {{pending}} (queue, seq) WHERE state = 'ready' AND stream IS NULL;
CREATE INDEX IF NOT EXISTS {{pending_ready}} ON {{pending}} (stream, seq) WHERE state = 'ready' AND stream IS NOT NULL;
CREATE INDEX IF NOT EXISTS {{pending_waiting}} ON {{pending}} (queue, due) WHERE state = 'waiting';
CREATE INDEX IF NOT EXISTS {{pending_leased}} ON {{pending}} (relay, lease_until) WHERE state = 'leased';

-- Streams in their order, to see what is the first row of one. Its condition is another one, lest it be used in
-- place of the one for those that are ready.
CREATE INDEX IF NOT EXISTS {{pending_streams}} ON {{pending}} (stream, seq) WHERE parked_at IS NULL AND stream IS NOT NULL;
CREATE INDEX IF NOT EXISTS {{pending_parked}} ON {{pending}} (parked_at, seq) WHERE state = 'parked';

-- What was sent, until it is swept together with its row.
CREATE TABLE IF NOT EXISTS {{sent}} (
	id         uuid PRIMARY KEY,
	sent_at    timestamptz NOT NULL,
	queue      text NOT NULL,
	message_id text NOT NULL,
	attempts   int NOT NULL,
	seq        bigint -- that it had as pending; null: it was sent before this was noted
) WITH (autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX IF NOT EXISTS {{sent_at}} ON {{sent}} (sent_at);

-- What is known about each replay. Numbers are given once, whatever becomes of the rows.
CREATE TABLE IF NOT EXISTS {{replays}} (
	number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	version bigint NOT NULL,
	record  jsonb NOT NULL -- as package outbox writes a Replay
);

-- What a replay that is under way has to send: rows that were sent by their ids, or what a query returned.
CREATE TABLE IF NOT EXISTS {{replay_rows}} (
	number bigint NOT NULL,
	place  bigint NOT NULL,
	id     uuid,
	row    json,
	PRIMARY KEY (number, place)
);

-- No value of it may be kept for later by a session.
CREATE SEQUENCE IF NOT EXISTS {{seq}} CACHE 1;

-- Whoever writes to a stream holds its row of these until his transaction ends, and draws from the sequence
-- only then: so the order within a stream is the order of the commits, whatever the isolation. They are rows,
-- because the server has memory for a few thousand advisory locks only. Streams that share one wait for each
-- other in vain, which with so many is rare.
CREATE TABLE IF NOT EXISTS {{turns}} (n int PRIMARY KEY);
INSERT INTO {{turns}} SELECT generate_series(0, 65535) ON CONFLICT DO NOTHING;

-- Until when some relay listens, in microseconds of the epoch. It is a sequence for what sequences are not
-- subject to: transactions see its value at once, whatever their isolation, and leave no old versions behind.
CREATE SEQUENCE IF NOT EXISTS {{waiting}} MINVALUE 0 START 0;

-- One row.
CREATE TABLE IF NOT EXISTS {{meta}} (
	one    boolean PRIMARY KEY DEFAULT true CHECK (one),
	schema int NOT NULL
);

-- The triggers. They run with the rights of the owner, so that INSERT on the table is all that a program needs,
-- and therefore find nothing by search_path: @ is the schema.
DO $schema$
DECLARE
	code text;
BEGIN
	FOREACH code IN ARRAY ARRAY[
$sql$
CREATE OR REPLACE FUNCTION @.{{inserted}}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
	turns int[];
	at    timestamptz;
BEGIN
	SELECT array_agg(DISTINCT @.{{turn}}(r.stream)) INTO turns
	FROM (SELECT @.{{stream}}(aggregatetype, aggregateid, group_id) AS stream FROM new_rows) r WHERE r.stream IS NOT NULL;
	IF turns IS NOT NULL THEN
		PERFORM 1 FROM @.{{turns}} t WHERE t.n = ANY (turns) ORDER BY t.n FOR UPDATE;
	END IF;

	at := clock_timestamp();
	INSERT INTO @.{{pending}} (id, seq, queue, stream, bytes, state, due)
	SELECT r.id, nextval('@.{{seq}}'), r.aggregatetype, @.{{stream}}(r.aggregatetype, r.aggregateid, r.group_id),
		octet_length(r.payload) + coalesce(octet_length(r.headers::text), 0)::bigint,
		CASE WHEN r.deliver_after > at THEN 'waiting' ELSE 'ready' END, greatest(r.deliver_after, at)
	FROM new_rows r;

	-- NOTIFY takes turns with all other commits that do, so it is for when somebody listens.
	IF FOUND AND (SELECT w.last_value FROM @.{{waiting}} w) >= extract(epoch FROM at) * 1000000 THEN
		PERFORM pg_notify('tenaq_outbox_' || TG_RELID, '');
	END IF;
	RETURN NULL;
END $$
$sql$, $sql$
CREATE OR REPLACE FUNCTION @.{{deleted}}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS $$
BEGIN
	IF TG_OP = 'TRUNCATE' THEN
		DELETE FROM @.{{pending}};
		DELETE FROM @.{{sent}};
		RETURN NULL;
	END IF;
	DELETE FROM @.{{pending}} p WHERE p.id = ANY (ARRAY(SELECT r.id FROM old_rows r));
	DELETE FROM @.{{sent}} s WHERE s.id = ANY (ARRAY(SELECT r.id FROM old_rows r));
	RETURN NULL;
END $$
$sql$, $sql$
-- What a row has to keep its order in. A group id may be longer than an index takes. It is one expression, to
-- be part of the statements that call it.
CREATE OR REPLACE FUNCTION @.{{stream}}(queue text, key text, group_id text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT CASE
		WHEN NOT coalesce(group_id <> '' OR right(queue, 5) = '.fifo', false) THEN NULL
		WHEN octet_length(coalesce(nullif(group_id, ''), key)) <= 1024 THEN queue || chr(31) || coalesce(nullif(group_id, ''), key)
		ELSE queue || chr(31) || left(coalesce(nullif(group_id, ''), key), 200) || chr(31) || md5(coalesce(nullif(group_id, ''), key))
	END
$$
$sql$, $sql$
CREATE OR REPLACE FUNCTION @.{{turn}}(stream text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT (hashtextextended(stream COLLATE "C", 0::bigint) & 65535::bigint)::int
$$
$sql$]
	LOOP
		EXECUTE replace(code, '@.', quote_ident(current_schema()) || '.');
	END LOOP;
END $schema$;

-- Nobody gets their rights by calling them from a trigger of his own.
REVOKE ALL ON FUNCTION {{inserted}}(), {{deleted}}() FROM PUBLIC;

DO $$
BEGIN
	IF NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = '{{table}}'::regclass AND t.tgfoid = '{{inserted}}'::regproc) THEN
		CREATE TRIGGER {{inserted}} AFTER INSERT ON {{table}} REFERENCING NEW TABLE AS new_rows
			FOR EACH STATEMENT EXECUTE FUNCTION {{inserted}}();
		CREATE TRIGGER {{deleted}} AFTER DELETE ON {{table}} REFERENCING OLD TABLE AS old_rows
			FOR EACH STATEMENT EXECUTE FUNCTION {{deleted}}();
		CREATE TRIGGER {{truncated}} AFTER TRUNCATE ON {{table}} FOR EACH STATEMENT EXECUTE FUNCTION {{deleted}}();
	END IF;
END $$;
