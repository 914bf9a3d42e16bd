// All queues: searched, sorted and paged in the server.

import { Fragment, h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Queue, QueueList, SeriesList, Snapshot } from "../api.gen";
import { ask } from "../act";
import { Failed, get, useGet } from "../api";
import { cmd, useCommands } from "../commands";
import { count, plural, rate } from "../format";
import { more } from "../lazy";
import { Age, Badge, Choice, Count, Empty, Field, Figure, More, QueueLink, Seen, T, useTitle } from "../parts";
import { can, change, epoch, has, link, paused, route, visible } from "../state";
import { useNarrow, Virtual } from "../virtual";

const page = 100, every = 5000;

const FirstSteps = more((s) => s.FirstSteps);

// Rows are the list as it is shown. While the pointer is over it, names keep their places, and only
// numbers change.
interface Rows {
  snapshot: Snapshot; // the newest
  order: Snapshot; // that of the names: those of two snapshots would repeat or miss some
  names: Map<number, string>;
  numbers: Map<string, Queue>;
  at: number;
}

type Sort = "trouble" | "name" | "visible" | "inFlight" | "delayed" | "age" | "sent" | "deleted";
const sorts: [Sort, string][] = [["trouble", "trouble first"], ["name", "name"], ["visible", "visible"], ["inFlight", "in flight"],
  ["delayed", "delayed"], ["age", "age of the oldest"], ["sent", "sent per second"], ["deleted", "deleted per second"]];
const onlys: [string, string][] = [["", "all"], ["active", "active"], ["dead", "dead-letter queues"], ["alarm", "with alarms"], ["fifo", "FIFO"], ["paused", "paused"]];

// usePages reads the pages that are seen, and reads them again every few seconds.
function usePages(query: { text: string; only: string; sort: string; desc: boolean }) {
  const [rows, set] = useState<Rows | null>(null);
  const [error, fail] = useState<Failed | null>(null);
  const [slow, setSlow] = useState(false);
  const held = useRef(false); // the pointer is over the list
  const span = useRef({ from: 0, to: 40 });
  const current = useRef<Rows | null>(null);
  const asking = useRef(new Set<string>());
  const key = JSON.stringify(query);
  const shown = useRef(key);
  shown.current = key;
  const round = epoch.value, live = visible.value && !paused.value;
  const load = (from: number, snapshot?: number) => get<QueueList>("/queues", {
    text: query.text, only: query.only, sort: query.sort, desc: query.desc, from: from || undefined, limit: page, snapshot,
  });
  const put = (list: QueueList, from: number, fresh: boolean) => {
    const s = list.snapshot!;
    const before = current.current;
    const keep = before && !fresh;
    const newer = keep && before.snapshot.id > s.id ? before : { snapshot: s, at: Date.now() - s.ageMs };
    const next: Rows = { snapshot: newer.snapshot, at: newer.at, order: keep ? before.order : s, names: new Map(keep ? before.names : []), numbers: new Map(before?.numbers) };
    list.queues.forEach((q, i) => {
      if (next.order.id === s.id) next.names.set(from + i, q.name);
      next.numbers.set(q.name, q);
    });
    if (next.numbers.size > 5000) next.numbers = new Map(list.queues.map((q) => [q.name, q]));
    current.current = next;
    set(next);
    fail(null);
  };
  const want = (from: number, to: number) => {
    span.current = { from, to };
    const now = current.current;
    if (!now) return;
    for (let p = Math.floor(from / page); p <= Math.floor(Math.max(from, to - 1) / page); p++) {
      const asked = key + p;
      if (now.names.has(p * page) || p * page >= now.order.matched || asking.current.has(asked)) continue;
      asking.current.add(asked);
      load(p * page, now.order.id).then((list) => {
        asking.current.delete(asked);
        if (shown.current !== key) return;
        // The server keeps a snapshot for some seconds. Without it, the names are those of a new one.
        put(list, p * page, list.snapshot!.id !== current.current?.order.id);
        want(span.current.from, span.current.to);
      }, () => asking.current.delete(asked));
    }
  };
  useEffect(() => {
    let stopped = false, timer = 0;
    current.current = null;
    const read = async (first: boolean) => {
      const late = setTimeout(() => setSlow(true), 1500);
      try {
        const at = first ? 0 : Math.floor(span.current.from / page) * page;
        const list = await load(at);
        const rest = !first && span.current.to > at + page ? await load(at + page, list.snapshot!.id) : null;
        if (stopped) return;
        if (!rest || rest.snapshot!.id === list.snapshot!.id) { // both pages at once, or the later one would be empty for a moment
          put(list, at, !held.current || first);
          if (rest) put(rest, at + page, false);
        }
        want(span.current.from, span.current.to);
      } catch (e) {
        if (!stopped && e instanceof Failed) fail(e);
      } finally {
        clearTimeout(late);
      }
      setSlow(false);
      if (live && !stopped) timer = setTimeout(() => void read(false), every);
    };
    void read(true);
    return () => {
      stopped = true;
      clearTimeout(timer);
    };
  }, [key, round, live]);
  return { rows, error, slow, want, hold: (is: boolean) => (held.current = is) };
}

type Values = (number | null)[];

// useSparks reads the last minutes of the queues that are shown, when the list has come to rest.
function useSparks(rows: Rows | null) {
  const [span, set] = useState([0, 40]);
  const timer = useRef(0), kept = useRef(new Map<string, Values | undefined>());
  const names: string[] = [];
  for (let i = span[0]!; rows && i < Math.min(span[1]!, span[0]! + page); i++) {
    const name = rows.names.get(i);
    if (name !== undefined) names.push(name);
  }
  const list = useGet<SeriesList>(names.length && has("series", "tenaq:ListQueues") ? "/series" : null, { queues: names.sort().join(), last: "30m" }, 60_000).data;
  if (list && kept.current.size > 2000) kept.current.clear();
  if (list) for (const name of names) kept.current.set(name, list.queues[name]?.visible);
  return {
    of: (name: string) => kept.current.get(name),
    seen: (from: number, to: number) => {
      clearTimeout(timer.current);
      timer.current = setTimeout(() => set((is) => (is[0] === from && is[1] === to ? is : [from, to])), 200);
    },
  };
}

// Spark draws a step for each minute. A gap ends the line.
function Spark({ values }: { values?: Values }) {
  const known = values?.filter((v) => v !== null) ?? [];
  if (!values || known.length === 0) return <span class="dim">–</span>;
  const most = Math.max(...known), y = (v: number) => (15 - 14 * v / Math.max(most, 1)).toFixed(1);
  const line = values.map((v, i) => (v === null ? "" : `${(values[i - 1] ?? null) === null ? "M" : "L"}${3 * i} ${y(v)}h3`)).join("");
  return <svg class="spark" viewBox={`0 0 ${3 * values.length} 16`} role="img" aria-label={`visible: ${count(known.at(-1)!)}, at most ${count(most)}`}><path d={line} /></svg>;
}

export function Overview() {
  useTitle("Overview");
  const q = route.value.query;
  const text = q.get("text") ?? "", only = q.get("only") ?? "", sort = (q.get("sort") ?? "trouble") as Sort;
  const asc = q.get("asc") === "1";
  const desc = sort === "name" ? asc : !asc;
  const { rows, error, slow, want, hold } = usePages({ text, only, sort, desc });
  const small = useNarrow();
  const sparks = useSparks(rows);
  useCommands([
    cmd("Show all queues and what waits in them", "tenaq", "peek"),
    cmd("List the names of all queues", "tenaq", "queue", "list"),
    cmd("Show the alarms", "tenaq", "alarms"),
    cmd("Create a queue", "tenaq", "queue", "create", "orders"),
    cmd("Send a message", "tenaq", "send", "orders", '{"id": 1}'),
  ]);
  if (error?.status === 400) return <PlainList text={text} />;
  const s = rows?.snapshot, t = s?.totals, shown = rows?.order.matched ?? 0;
  const sortBy = (by: Sort) => change({ sort: by === "trouble" ? undefined : by, asc: sort === by && !asc ? "1" : undefined });
  const head = (by: Sort, name: string, className = "number") =>
    <span role="columnheader" class={className} aria-sort={sort === by ? (desc ? "descending" : "ascending") : "none"}>
      <button type="button" class="sort" onClick={() => sortBy(by)}>{name}<span aria-hidden="true">{sort === by ? (desc ? " ↓" : " ↑") : ""}</span></button></span>;
  return <Fragment>
    <div class="titlebar"><h1>Overview {rows && <Seen at={rows.at} every={every + 5000} />}</h1>{s && s.total > 0 && <CreateButton />}</div>
    {error && error.status > 0 && <div class="problem" role="alert"><T text={error.message} /></div>}
    {t && s && <div class="figures">
      <Figure name={s.total === 1 ? "queue" : "queues"} note={s.complete ? "" : "still counting"}>{count(s.total)}</Figure>
      <Figure name="visible">{count(t.visible)}</Figure>
      <Figure name="in flight">{count(t.inFlight)}</Figure>
      <Figure name="delayed">{count(t.delayed)}</Figure>
      <Figure name="oldest"><Age ms={t.oldestAgeMs} /></Figure>
      <Figure name="sent per second">{rate(t.sentPerS)}</Figure>
      <Figure name="deleted per second">{rate(t.deletedPerS)}</Figure>
      <Figure name={t.alarms === 1 ? "alarm" : "alarms"}><a class={t.alarms ? "alarm" : ""} href="#/alarms">{count(t.alarms)}</a></Figure>
    </div>}
    <div class="filters" role="search" aria-label="Queues">
      <Field name="Name contains" value={text} set={(v) => change({ text: v })} />
      <Choice name="Show" value={only} values={onlys} set={(v) => change({ only: v })} />
      <Choice name="Sort by" value={sort} values={sorts} set={(v) => change({ sort: v === "trouble" ? undefined : v, asc: undefined })} />
      {s && shown > 0 && text && <a href={link(["trace", text])}>The life of the work <T text={text} /></a>}
      {s && <span class="matched">{s.matched === s.total ? plural(s.total, "queue") : `${count(s.matched)} of ${plural(s.total, "queue")}`}</span>}
    </div>
    {!rows && !error && <div class="loading">{slow ? "The server is slow. Still waiting…" : "Loading…"}</div>}
    {!rows && error?.status === 0 && <div class="loading">Waiting for the server…</div>}
    {s && s.total === 0 && s.complete && <FirstSteps />}
    {s && s.total > 0 && shown === 0 && <Empty>No queue matches. <a href="#/">Show all queues</a>{text && <Fragment>, or <a href={link(["trace", text])}>the life of the work <T text={text} /></a></Fragment>}</Empty>}
    {rows && shown > 0 && <div class="board" onPointerEnter={() => hold(true)} onPointerLeave={() => hold(false)}>
      <Virtual name="Queues" total={shown} seen={(from, to) => { want(from, to); sparks.seen(from, to); }}
        head={<div class="row head" role="rowgroup"><div role="row" class="cells">
          {head("name", "Name", "wide")}{head("visible", "Visible")}{head("inFlight", "In flight")}{head("delayed", "Delayed")}
          {head("age", "Oldest")}{head("sent", "Sent/s")}{head("deleted", "Deleted/s")}<span role="columnheader" class="sparks" title="Visible messages">Last 30 min</span><span role="columnheader">Dead letters</span>
        </div></div>}
        row={(i, top) => {
          const name = rows.names.get(i);
          return <Row key={name ?? i} queue={name === undefined ? undefined : rows.numbers.get(name)} index={i} top={top} small={small} spark={name === undefined ? undefined : sparks.of(name)} />;
        }} />
    </div>}
  </Fragment>;
}

function Row({ queue: q, index, top, small, spark }: { queue?: Queue; index: number; top: number; small: boolean; spark?: Values }) {
  const place = { transform: `translateY(${top}px)` };
  if (!q) return <div class="row" style={place} role="row" aria-rowindex={index + 2}><div class="cells"><span role="cell" class="wide dim">…</span></div></div>;
  const dead = q.deadLetters;
  const cell = (label: string, content: preact.ComponentChildren) => <span role="cell" class="number" data-name={small ? label : undefined}>{content}</span>;
  return <div class="row" style={place} role="row" aria-rowindex={index + 2}><div class="cells">
    <span role="cell" class="wide"><a data-row href={link(["q", q.name])}><T text={q.name} /></a>
      {q.alarms ? <a class="plainlink" href={link(["alarms"], { queue: q.name })}><Badge kind="bad">{plural(q.alarms, "alarm")}</Badge></a> : null}
      {q.fifo && <span class="tag">FIFO</span>}{q.paused && <span class="tag warn">paused</span>}</span>
    {cell("visible", <Count n={q.visible} />)}{cell("in flight", <Count n={q.inFlight} />)}{cell("delayed", <Count n={q.delayed} />)}
    {cell("oldest", <Age ms={q.oldestAgeMs} />)}
    {cell("sent/s", q.rates?.sentPerS ? rate(q.rates.sentPerS) : <span class="dim">0</span>)}
    {cell("deleted/s", q.rates?.deletedPerS ? rate(q.rates.deletedPerS) : <span class="dim">0</span>)}
    <span role="cell" class="sparks"><Spark values={spark} /></span>
    <span role="cell" class="deads">{dead ? dead.messages
      ? <a class="dead" href={link(["q", dead.queue, "dead"])}>{plural(dead.messages, "dead letter")}</a>
      : <span class="dim">none</span> : <span class="dim">–</span>}</span>
  </div></div>;
}

const CreateButton = () => can("sqs:CreateQueue") ? <button type="button" onClick={() => void ask((c) => <c.Create />)}>Create a queue</button> : null;

// PlainList is for accounts that the server does not watch: their queues come by name only.
function PlainList({ text }: { text: string }) {
  const [queues, set] = useState<Queue[]>([]);
  const [next, setNext] = useState<string | undefined>("");
  const [error, fail] = useState("");
  const more = async (after: string, before: Queue[]) => {
    try {
      const list = await get<QueueList>("/queues", { prefix: text, after });
      set([...before, ...list.queues]);
      setNext(list.next);
    } catch (e) {
      fail(String((e as Error).message));
    }
  };
  useEffect(() => void more("", []), [text, epoch.value]);
  return <Fragment>
    <h1>Queues</h1>
    <p class="dim">This server searches and sorts only the queues of its own account. These are yours, by name.</p>
    <Field name="Name begins with" value={text} set={(v) => change({ text: v })} />
    {error && <div class="problem" role="alert"><T text={error} /></div>}
    <ul class="plain">{queues.map((q) => <li key={q.name}><QueueLink name={q.name} /> <span class="dim">{count(q.visible)} visible, {count(q.inFlight)} in flight{q.paused && ", paused"}</span></li>)}</ul>
    {next && <More ask={() => void more(next, queues)} />}
  </Fragment>;
}
