
-- What relays call. Under read committed, which they ask for, every statement of a function sees what was
-- committed before it.
--
-- Plans are kept for long, and the table may have been empty when one was made, so every statement is such that
-- there is one sensible plan. Tables are joined by LATERAL only, from few rows to the key of many, and where a
-- row is found by its id its state is compared by LIKE, lest an index of all in that state seem as good.

CREATE OR REPLACE FUNCTION {{micros}}(d interval) RETURNS bigint LANGUAGE sql IMMUTABLE
AS 'SELECT (extract(epoch FROM d) * 1000000)::bigint';

-- A time as a person may have written it, as microseconds of the epoch within the years 1 to 9999.
CREATE OR REPLACE FUNCTION {{micros}}(t timestamptz) RETURNS bigint LANGUAGE sql STABLE
AS $$
	SELECT CASE WHEN t IS NOT NULL THEN
		(extract(epoch FROM greatest(least(t, '9999-12-31 00:00:00Z'), '0001-01-01 00:00:00Z')) * 1000000)::bigint END
$$;

-- Begins a write: its commit will be answered only when it is on disk, whatever the settings of the
-- database, the role or the session. What waits for more than that stays. A statement that is a transaction
-- by itself learns here that it has another isolation.
CREATE OR REPLACE FUNCTION {{begin}}() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE EXCEPTION USING ERRCODE = 'TNQ02', MESSAGE = 'relays of an outbox work under read committed',
			HINT = 'begin the transaction with ISOLATION LEVEL READ COMMITTED';
	END IF;
	IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply') THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
END $$;

-- Rows as relays get them, with what a claim and a list of parked rows have in addition.
CREATE OR REPLACE VIEW {{rows}} AS
SELECT p.id, p.seq, p.state, p.attempts, p.reason, {{micros}}(p.parked_at) AS parked_at,
	CASE WHEN p.stream IS NOT NULL THEN o.aggregatetype || chr(31) || coalesce(nullif(o.group_id, ''), o.aggregateid) END AS stream,
	o.aggregatetype, o.aggregateid, o.type, o.payload, o.group_id, o.dedup_id, o.headers::text AS headers,
	{{micros}}(o.deliver_after) AS deliver_after, {{micros}}(o.created_at) AS created_at, o.generation
FROM {{pending}} p JOIN {{table}} o USING (id);

-- Makes ready what waited and is due, and what was leased and is not any more, and returns whether that was
-- all. An outcome still counts after this, as long as nobody else has taken the row.
CREATE OR REPLACE FUNCTION {{wake}}(at timestamptz) RETURNS boolean LANGUAGE plpgsql VOLATILE {{planned}} AS $$
DECLARE
	most  CONSTANT int := 2000;
	woken uuid[];
BEGIN
	WITH RECURSIVE q AS (
		SELECT (SELECT p.queue FROM {{pending}} p WHERE p.state = 'waiting' ORDER BY p.queue LIMIT 1) AS queue
		UNION ALL
		SELECT (SELECT p.queue FROM {{pending}} p WHERE p.state = 'waiting' AND p.queue > q.queue ORDER BY p.queue LIMIT 1)
		FROM q WHERE q.queue IS NOT NULL
	), r AS (
		SELECT (SELECT p.relay FROM {{pending}} p WHERE p.state = 'leased' ORDER BY p.relay LIMIT 1) AS relay
		UNION ALL
		SELECT (SELECT p.relay FROM {{pending}} p WHERE p.state = 'leased' AND p.relay > r.relay ORDER BY p.relay LIMIT 1)
		FROM r WHERE r.relay IS NOT NULL
	)
	SELECT array_agg(d.id) INTO woken FROM (
		SELECT p.id FROM q CROSS JOIN LATERAL (
			SELECT p.id FROM {{pending}} p WHERE p.state = 'waiting' AND p.queue = q.queue AND p.due <= at
			ORDER BY p.due LIMIT most FOR UPDATE SKIP LOCKED) p
		UNION ALL
		SELECT p.id FROM r CROSS JOIN LATERAL (
			SELECT p.id FROM {{pending}} p WHERE p.state = 'leased' AND p.relay = r.relay AND p.lease_until <= at
			ORDER BY p.lease_until LIMIT most FOR UPDATE SKIP LOCKED) p
	) d;
	IF woken IS NOT NULL THEN
		UPDATE {{pending}} p SET state = 'ready' WHERE p.id = ANY (woken);
	END IF;
	RETURN coalesce(cardinality(woken), 0) < most;
END $$;

-- Locks and returns rows that are ready and have no order to keep, up to most: of each queue the oldest, and
-- of several queues the same number if they have it.
CREATE OR REPLACE FUNCTION {{free}}(most int, excepted text[], OUT ids uuid[], OUT sizes bigint[]) LANGUAGE plpgsql VOLATILE {{planned}} AS $$
DECLARE
	queues text[];
	behind bigint[] := '{}'; -- per queue what it has given so far; null when it has no more
	part   record;
	n      int;
	share  int;
BEGIN
	ids := '{}';
	sizes := '{}';
	WITH RECURSIVE q AS (
		SELECT (SELECT p.queue FROM {{pending}} p WHERE p.state = 'ready' AND p.stream IS NULL ORDER BY p.queue LIMIT 1) AS queue
		UNION ALL
		SELECT (SELECT p.queue FROM {{pending}} p WHERE p.state = 'ready' AND p.stream IS NULL AND p.queue > q.queue ORDER BY p.queue LIMIT 1)
		FROM q WHERE q.queue IS NOT NULL
	)
	SELECT array_agg(q.queue ORDER BY random()) INTO queues FROM q WHERE q.queue IS NOT NULL AND q.queue <> ALL (excepted);
	n := coalesce(cardinality(queues), 0);
	FOR pass IN 1..2 LOOP -- the second is for what others left
		FOR i IN 1..n LOOP
			share := most - cardinality(ids);
			IF pass = 1 THEN
				share := (share + n - i) / (n - i + 1);
				behind[i] := -1;
			END IF;
			CONTINUE WHEN share = 0 OR behind[i] IS NULL;
			SELECT array_agg(r.id ORDER BY r.seq) AS ids, array_agg(r.bytes ORDER BY r.seq) AS sizes, max(r.seq) AS last, count(*) AS rows INTO part FROM (
				SELECT p.id, p.seq, p.bytes FROM {{pending}} p
				WHERE p.state = 'ready' AND p.stream IS NULL AND p.queue = queues[i] AND p.seq > behind[i]
				ORDER BY p.seq LIMIT share FOR UPDATE SKIP LOCKED) r;
			ids := ids || coalesce(part.ids, '{}');
			sizes := sizes || coalesce(part.sizes, '{}');
			behind[i] := CASE WHEN part.rows = share THEN part.last END;
		END LOOP;
	END LOOP;
END $$;

-- Walks from stream to stream, those behind one name first, and locks up to most first rows of streams that
-- are ready. It returns their streams and places, and the name behind which the next walk should begin; and
-- whether it came around, which it may not when many streams have rows that are ready behind some that are not.
--
-- The first row of a stream is that until it is gone: what is before it was committed before it, and what is
-- released goes to the end. So a look at what was there a moment ago is good enough to know it.
CREATE OR REPLACE FUNCTION {{heads}}(most int, excepted text[], INOUT behind text, OUT streams text[], OUT seqs bigint[], OUT around boolean)
LANGUAGE plpgsql VOLATILE {{planned}} AS $$
DECLARE
	most_walked CONSTANT int := 5000;
	began       CONSTANT text := behind;
	walked      int := 0;
	w           record;
BEGIN
	streams := '{}';
	seqs := '{}';
	around := false;
	FOR lap IN 1..2 LOOP
		FOR w IN
			WITH RECURSIVE walk AS (
				(SELECT p.id, p.queue, p.stream, p.seq, walked + 1 AS n FROM {{pending}} p
				WHERE p.state = 'ready' AND p.stream IS NOT NULL AND p.stream > behind
				ORDER BY p.stream, p.seq LIMIT 1)
				UNION ALL
				SELECT p.*, s.n + 1 FROM walk s CROSS JOIN LATERAL (
					SELECT p.id, p.queue, p.stream, p.seq FROM {{pending}} p
					-- Streams begin with their queue and character 31: this is behind all of them.
					WHERE p.state = 'ready' AND p.stream IS NOT NULL
						AND p.stream > CASE WHEN s.queue = ANY (excepted) THEN s.queue || chr(32) ELSE s.stream END
					ORDER BY p.stream, p.seq LIMIT 1) p
				WHERE s.n < most_walked
			)
			SELECT s.stream, s.seq, h.id IS NOT NULL AS first, s.n FROM walk s LEFT JOIN LATERAL (
				SELECT p.id FROM {{pending}} p WHERE p.id = s.id AND p.state LIKE 'ready' AND s.queue <> ALL (excepted)
					AND NOT EXISTS (SELECT FROM {{pending}} b WHERE b.stream = s.stream AND b.parked_at IS NULL AND b.seq < s.seq)
				FOR UPDATE SKIP LOCKED) h ON true
		LOOP
			EXIT WHEN lap = 2 AND w.stream > began;
			walked := w.n;
			behind := w.stream;
			IF w.first THEN
				streams := streams || w.stream;
				seqs := seqs || w.seq;
			END IF;
			IF cardinality(streams) = most OR walked >= most_walked THEN
				RETURN;
			END IF;
		END LOOP;
		EXIT WHEN began = '';
		behind := '';
	END LOOP;
	around := true;
	behind := began;
END $$;

-- Leases rows to a relay, and returns them. A last one without an id has as seq how many microseconds it is
-- until the next row, and as stream behind which one the next claim should begin to look.
CREATE OR REPLACE FUNCTION {{claim}}(who text, lease bigint, most int, most_bytes bigint, most_stream int, excepted text[], begin_behind text)
RETURNS SETOF {{rows}} LANGUAGE plpgsql VOLATILE {{planned}} AS $$
DECLARE
	at       timestamptz := clock_timestamp();
	complete boolean;
	free     record;
	heads    record;
	n_heads  int;
	depth    int;
	line     record;
	taken    record;
	found    int;
	next     bigint;
	last     {{rows}};
BEGIN
	PERFORM {{begin}}();
	complete := {{wake}}(at);
	-- One more than is wanted, to know whether there are more.
	SELECT * INTO free FROM {{free}}(most + 1, excepted);
	SELECT * INTO heads FROM {{heads}}(most + 1, excepted, begin_behind);
	n_heads := cardinality(heads.streams);

	-- What follows the heads, without a gap: as deep as it takes to have enough. Whoever has the first row of
	-- a stream decides about the others, so they are as they are from here on, but for a relay that renews a
	-- lease which has ended, and for somebody who deletes rows.
	depth := CASE WHEN n_heads >= most THEN 1 ELSE least(most_stream, 1 + 2 * (most / greatest(n_heads, 1))) END;
	LOOP
		WITH lined AS MATERIALIZED (
			SELECT f.id, f.bytes, h.n, f.k
			FROM unnest(heads.streams, heads.seqs) WITH ORDINALITY AS h (stream, seq, n)
			CROSS JOIN LATERAL (
				SELECT b.id, b.bytes, row_number() OVER (ORDER BY b.seq) AS k FROM (
					SELECT p.id, p.seq, p.bytes FROM {{pending}} p
					WHERE p.stream = h.stream AND p.seq >= h.seq AND p.parked_at IS NULL
					ORDER BY p.seq LIMIT depth) b) f
			CROSS JOIN LATERAL (SELECT p.id FROM {{pending}} p WHERE p.id = f.id AND p.state LIKE 'ready' FOR UPDATE SKIP LOCKED) l
		), whole AS (
			SELECT * FROM (SELECT l.*, row_number() OVER (PARTITION BY l.n ORDER BY l.k) AS i FROM lined l) l WHERE l.k = l.i
		)
		SELECT array_agg(w.id ORDER BY w.k, w.n) AS ids, array_agg(w.n ORDER BY w.k, w.n) AS ns, array_agg(w.bytes ORDER BY w.k, w.n) AS sizes,
			count(*) AS rows, coalesce(max(w.k), 0) = depth AS deeper
		INTO line FROM whole w;
		EXIT WHEN line.rows >= most OR NOT line.deeper OR depth >= most_stream;
		depth := least(most_stream, 4 * depth);
	END LOOP;

	-- Rows of both kinds in turns, the first of all streams before the second of any, as far as there is room.
	-- Which kind is the first one is left to chance, so that a row of any size is the first one some time.
	WITH found AS (
		SELECT l.id, l.n, l.bytes, l.i, coin.kind FROM unnest(line.ids, line.ns, line.sizes) WITH ORDINALITY AS l (id, n, bytes, i),
			(SELECT CASE WHEN random() < 0.5 THEN 0 ELSE 2 END AS kind OFFSET 0) coin
		UNION ALL
		SELECT f.id, NULL, f.bytes, f.i, 1 FROM unnest(free.ids, free.sizes) WITH ORDINALITY AS f (id, bytes, i)
	), sized AS (
		SELECT f.*, row_number() OVER w AS place, sum(f.bytes) OVER w AS total
		FROM found f WINDOW w AS (ORDER BY f.i, f.kind ROWS UNBOUNDED PRECEDING)
	)
	SELECT array_agg(s.id) AS ids, count(*) AS rows, count(*) FILTER (WHERE s.kind = 1) AS free, coalesce(max(s.n), 0) AS heads
	INTO taken FROM sized s WHERE s.place <= most AND (s.place = 1 OR s.total <= most_bytes);
	-- The view {{rows}} would look up each row of {{pending}} once more.
	RETURN QUERY WITH leased AS (
		UPDATE {{pending}} p SET state = 'leased', relay = who, lease_until = clock_timestamp() + lease * interval '1 microsecond'
		WHERE p.id = ANY (taken.ids) RETURNING p.id, p.seq, p.state, p.attempts, p.reason, p.stream
	)
	SELECT l.id, l.seq, l.state, l.attempts, l.reason, NULL::bigint,
		CASE WHEN l.stream IS NOT NULL THEN o.aggregatetype || chr(31) || coalesce(nullif(o.group_id, ''), o.aggregateid) END,
		o.aggregatetype, o.aggregateid, o.type, o.payload, o.group_id, o.dedup_id, o.headers::text,
		{{micros}}(o.deliver_after), {{micros}}(o.created_at), o.generation
	FROM leased l CROSS JOIN LATERAL (SELECT * FROM {{table}} o WHERE o.id = l.id OFFSET 0) o;
	GET DIAGNOSTICS found = ROW_COUNT;
	IF found < taken.rows THEN -- somebody has deleted rows with the triggers off
		DELETE FROM {{pending}} p WHERE p.id = ANY (taken.ids) AND NOT EXISTS (SELECT FROM {{table}} o WHERE o.id = p.id);
	END IF;

	IF n_heads > taken.heads THEN -- begin with those that had no room
		heads.behind := CASE WHEN taken.heads = 0 THEN begin_behind ELSE heads.streams[taken.heads] END;
	END IF;
	IF NOT complete OR taken.free < cardinality(free.ids) OR taken.heads < n_heads THEN
		next := 0;
	ELSE
		-- Of what waits only the first row of a stream counts. A look at a few of each queue tells that, or
		-- when to look again.
		WITH RECURSIVE q AS (
			SELECT (SELECT p.queue FROM {{pending}} p WHERE p.state = 'waiting' ORDER BY p.queue LIMIT 1) AS queue
			UNION ALL
			SELECT (SELECT p.queue FROM {{pending}} p WHERE p.state = 'waiting' AND p.queue > q.queue ORDER BY p.queue LIMIT 1)
		FROM q WHERE q.queue IS NOT NULL
		)
		SELECT {{micros}}(min(w.due) - clock_timestamp()) INTO next FROM q CROSS JOIN LATERAL (
			SELECT min(p.due) FILTER (WHERE p.n = 50 OR p.stream IS NULL OR NOT EXISTS (
				SELECT FROM {{pending}} b WHERE b.stream = p.stream AND b.parked_at IS NULL AND b.seq < p.seq)) AS due
			FROM (
				SELECT least(p.due, at + interval '1 day') AS due, p.stream, p.seq, row_number() OVER (ORDER BY p.due) AS n
				FROM {{pending}} p WHERE p.state = 'waiting' AND p.queue = q.queue ORDER BY p.due LIMIT 50) p
		) w WHERE q.queue <> ALL (excepted);
		IF NOT heads.around THEN -- there may be more behind what is blocked
			next := least(next, CASE WHEN taken.rows > 0 THEN 0 ELSE 50000 END);
		END IF;
	END IF;
	last.seq := next;
	last.stream := heads.behind;
	RETURN NEXT last;
END $$;

-- Makes the leases of a relay that have not ended begin again, and returns which.
CREATE OR REPLACE FUNCTION {{renew}}(who text, lease bigint) RETURNS SETOF uuid LANGUAGE plpgsql VOLATILE {{planned}} AS $$
DECLARE
	held uuid[] := ARRAY(SELECT p.id FROM {{pending}} p WHERE p.state = 'leased' AND p.relay = who AND p.lease_until > clock_timestamp());
BEGIN
	PERFORM {{begin}}();
	PERFORM 1 FROM {{pending}} p WHERE p.id = ANY (held) ORDER BY p.id FOR UPDATE; -- as outcomes do
	RETURN QUERY UPDATE {{pending}} p SET lease_until = clock_timestamp() + lease * interval '1 microsecond'
		WHERE p.id = ANY (held) AND p.state = 'leased' AND p.relay = who AND p.lease_until > clock_timestamp() RETURNING p.id;
END $$;

-- Ends leases, with fates as outbox.Fate numbers them. Rows without a fate were sent. The only join is of what
-- is in memory, and is never a nested loop, which would compare each with all.
CREATE OR REPLACE FUNCTION {{settle}}(who text, ids uuid[], fates int[], afters bigint[], reasons text[], queues text[], message_ids text[])
RETURNS void LANGUAGE plpgsql VOLATILE {{planned}} SET enable_nestloop = off AS $$
DECLARE
	at   CONSTANT timestamptz := clock_timestamp();
	done CONSTANT uuid[] := ARRAY(SELECT o.id FROM unnest(ids, fates) AS o (id, fate) WHERE coalesce(o.fate, 0) = 0);
	rest record;
BEGIN
	PERFORM {{begin}}();
	BEGIN
		WITH gone AS (
			DELETE FROM {{pending}} p WHERE p.id = ANY (done) AND p.relay = who RETURNING p.id, p.attempts, p.seq
		)
		INSERT INTO {{sent}} (id, sent_at, queue, message_id, attempts, seq)
		SELECT g.id, at, o.queue, o.message_id, g.attempts, g.seq
		FROM gone g JOIN unnest(ids, fates, queues, message_ids) AS o (id, fate, queue, message_id) ON o.id = g.id
		WHERE coalesce(o.fate, 0) = 0;
	EXCEPTION WHEN unique_violation THEN -- it is there twice, or its id was that of a row deleted with the triggers off
		WITH gone AS (
			DELETE FROM {{pending}} p WHERE p.id = ANY (done) AND p.relay = who RETURNING p.id, p.attempts, p.seq
		)
		INSERT INTO {{sent}} AS s (id, sent_at, queue, message_id, attempts, seq)
		SELECT DISTINCT ON (g.id) g.id, at, o.queue, o.message_id, g.attempts, g.seq
		FROM gone g JOIN unnest(ids, fates, queues, message_ids) AS o (id, fate, queue, message_id) ON o.id = g.id
		WHERE coalesce(o.fate, 0) = 0
		ON CONFLICT (id) DO UPDATE SET (sent_at, queue, message_id, attempts, seq)
			= (excluded.sent_at, excluded.queue, excluded.message_id, excluded.attempts, excluded.seq);
	END;

	IF cardinality(done) = cardinality(ids) THEN
		RETURN;
	END IF;
	PERFORM 1 FROM {{pending}} p WHERE p.id = ANY (ids) AND p.relay = who ORDER BY p.id FOR UPDATE;
	FOR rest IN SELECT * FROM unnest(ids, fates, afters, reasons) AS o (id, fate, after, reason) WHERE o.fate <> 0 LOOP
		UPDATE {{pending}} p SET
			state = CASE WHEN rest.fate = 3 THEN 'parked' WHEN rest.after > 0 THEN 'waiting' ELSE 'ready' END,
			due = CASE WHEN rest.fate <> 3 AND rest.after > 0 THEN at + rest.after * interval '1 microsecond' ELSE p.due END,
			attempts = p.attempts + CASE WHEN rest.fate = 2 THEN 1 ELSE 0 END,
			parked_at = CASE WHEN rest.fate = 3 THEN at END,
			reason = rest.reason, relay = NULL, lease_until = NULL
		WHERE p.id = rest.id AND p.relay = who;
	END LOOP;
END $$;

-- Says that somebody listens for so many microseconds from now on, and returns whether somebody did.
CREATE OR REPLACE FUNCTION {{wait}}(most bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE {{planned}} AS $$
DECLARE
	at    bigint := {{micros}}(clock_timestamp());
	known bigint;
BEGIN
	SELECT w.last_value INTO known FROM {{waiting}} w;
	IF known < at + most THEN -- some more, so as not to have to say it each time
		PERFORM setval('{{waiting}}', at + most + 5000000);
	END IF;
	RETURN known >= at;
END $$;

CREATE OR REPLACE FUNCTION {{sweep}}(keep bigint, most bigint) RETURNS bigint LANGUAGE plpgsql VOLATILE {{planned}} AS $$
DECLARE
	old uuid[];
BEGIN
	PERFORM {{begin}}();
	SELECT array_agg(s.id) INTO old FROM (
		SELECT s.id FROM {{sent}} s WHERE s.sent_at < clock_timestamp() - keep * interval '1 microsecond'
		ORDER BY s.sent_at LIMIT most FOR UPDATE SKIP LOCKED) s;
	DELETE FROM {{sent}} s WHERE s.id = ANY (old);
	DELETE FROM {{table}} o WHERE o.id = ANY (old);
	RETURN coalesce(cardinality(old), 0);
END $$;

-- Puts parked rows at the end of their streams, in the order in which they were there. For that it takes its
-- turn like those who write new ones.
CREATE OR REPLACE FUNCTION {{release}}(ids uuid[]) RETURNS bigint LANGUAGE plpgsql VOLATILE {{planned}} AS $$
DECLARE
	released bigint := 0;
	r        record;
BEGIN
	PERFORM {{begin}}();
	PERFORM 1 FROM {{turns}} t WHERE t.n = ANY (ARRAY(
		SELECT {{turn}}(p.stream) FROM {{pending}} p WHERE p.id = ANY (ids) AND p.state LIKE 'parked' AND p.stream IS NOT NULL))
	ORDER BY t.n FOR UPDATE;
	FOR r IN SELECT p.id FROM {{pending}} p WHERE p.id = ANY (ids) AND p.state LIKE 'parked' ORDER BY p.seq FOR UPDATE LOOP
		UPDATE {{pending}} p SET seq = nextval('{{seq}}'), state = 'ready', due = clock_timestamp(), attempts = 0, reason = NULL, parked_at = NULL
		WHERE p.id = r.id;
		released := released + 1;
	END LOOP;
	IF released > 0 THEN
		PERFORM pg_notify('tenaq_outbox_' || '{{table}}'::regclass::oid, '');
	END IF;
	RETURN released;
END $$;

CREATE OR REPLACE FUNCTION {{discard}}(ids uuid[]) RETURNS bigint LANGUAGE plpgsql VOLATILE {{planned}} AS $$
DECLARE
	found     uuid[];
	discarded bigint;
BEGIN
	PERFORM {{begin}}();
	SELECT array_agg(p.id) INTO found FROM (
		SELECT p.id FROM {{pending}} p WHERE p.id = ANY (ids) AND p.state LIKE 'parked' ORDER BY p.id FOR UPDATE) p;
	DELETE FROM {{pending}} p WHERE p.id = ANY (found);
	GET DIAGNOSTICS discarded = ROW_COUNT;
	DELETE FROM {{table}} o WHERE o.id = ANY (found);
	RETURN discarded;
END $$;

-- What a replay has to send behind a place, in the columns of a claim as far as there is something to say, and
-- as from_query what a query returned. One that has been removed in the meantime has no aggregatetype.
CREATE OR REPLACE FUNCTION {{staged}}(replay bigint, behind bigint, most bigint)
RETURNS TABLE (place bigint, from_query text, id uuid, seq bigint, attempts int, generation int, stream text, reason text,
	aggregatetype text, aggregateid text, type text, payload text, group_id text, dedup_id text, headers text,
	parked_at bigint, deliver_after bigint, created_at bigint)
LANGUAGE plpgsql VOLATILE {{planned}} AS $$
BEGIN
	RETURN QUERY
	SELECT s.place, s.row::text, s.id, NULL::bigint, NULL::int, o.generation, NULL::text, NULL::text,
		o.aggregatetype, o.aggregateid, o.type, o.payload, o.group_id, o.dedup_id, o.headers::text,
		NULL::bigint, {{micros}}(o.deliver_after), {{micros}}(o.created_at)
	FROM (SELECT s.* FROM {{replay_rows}} s WHERE s.number = replay AND s.place > behind ORDER BY s.place LIMIT most) s
	LEFT JOIN LATERAL (SELECT * FROM {{table}} o WHERE o.id = s.id OFFSET 0) o ON true
	ORDER BY s.place;
END $$;

-- Counts rows as outbox.Stats has them. What waits for its time holds up those behind it in its stream.
CREATE OR REPLACE FUNCTION {{stats}}(OUT pending bigint, OUT due bigint, OUT oldest bigint, OUT parked bigint)
LANGUAGE sql VOLATILE SET search_path FROM CURRENT SET jit = off AS $$
	WITH later AS (
		SELECT p.stream, min(p.seq) AS seq FROM {{pending}} p, (SELECT clock_timestamp() AS at OFFSET 0) c
		WHERE p.state = 'waiting' AND p.due > c.at AND p.stream IS NOT NULL GROUP BY p.stream
	), judged AS (
		SELECT p.state, p.due, p.state <> 'parked' AND p.due <= c.at AND l.stream IS NULL AS now
		FROM (SELECT clock_timestamp() AS at OFFSET 0) c CROSS JOIN {{pending}} p LEFT JOIN later l ON l.stream = p.stream AND l.seq < p.seq
	)
	SELECT count(*) FILTER (WHERE j.state <> 'parked'), count(*) FILTER (WHERE j.now),
		greatest(coalesce({{micros}}(clock_timestamp() - min(j.due) FILTER (WHERE j.now)), 0), 0), count(*) FILTER (WHERE j.state = 'parked')
	FROM judged j
$$;

INSERT INTO {{meta}} (schema) VALUES ({{version}}) ON CONFLICT (one) DO UPDATE SET schema = excluded.schema;
