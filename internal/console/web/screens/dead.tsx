// Dead letters grouped by why they failed, and all queues that have some.

import { Fragment, h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Kind, Queue, QueueList, ReasonList, Redriver } from "../api.gen";
import { ask } from "../act";
import { Failed, get, useGet } from "../api";
import { cmd, CommandList, useCommands, v } from "../commands";
import { both, count, plain, plural } from "../format";
import { Age, Badge, Empty, MessageLink, More, T, Table, Time, useTitle, Wait } from "../parts";
import { can, change, epoch, has, link, route } from "../state";
import { parkingOf, Triage } from "../triage";

export function DeadQueues() {
  useTitle("Dead letters");
  const asked = useGet<QueueList>("/queues", { only: "dead", sort: "visible", desc: true, limit: 100 }, 5000);
  useCommands([cmd("Show all queues", "tenaq", "peek"), cmd("Group the messages of a dead-letter queue by reason", "tenaq", "dead", "list", "orders-dlq")]);
  return <Fragment>
    <h1>Dead letters</h1>
    <Wait of={asked}>{(d) => d.queues.length === 0
      ? <Empty>No queue has a dead-letter queue. <code>tenaq queue set orders RedrivePolicy=…</code> sets one.</Empty>
      : <Fragment><Table<Queue> name="Dead-letter queues" rows={d.queues} id={(q) => q.name} columns={[
        { name: "Queue", wide: true, cell: (q) => <a data-row href={link(["q", q.name, "dead"])}><T text={q.name} /></a> },
        { name: "Visible", number: true, cell: (q) => count(q.visible) },
        { name: "In flight", number: true, cell: (q) => count(q.inFlight) },
        { name: "Oldest", number: true, cell: (q) => <Age ms={q.oldestAgeMs} /> },
      ]} />{d.snapshot!.matched > d.queues.length && <p class="dim">{plural(d.snapshot!.matched - d.queues.length, "other")}: <a href={link([], { only: "dead", sort: "visible" })}>show all in the overview</a></p>}</Fragment>}
    </Wait>
  </Fragment>;
}

// add joins the kinds of two pages.
function add(before: Kind[], more: Kind[]): Kind[] {
  const all = new Map(before.map((k) => [k.kind, k]));
  const later = (a: string | null, b: string | null) => ((a ?? "") > (b ?? "") ? a : b);
  for (const k of more) {
    const b = all.get(k.kind);
    all.set(k.kind, !b ? k : {
      ...k, count: b.count + k.count, holding: (b.holding ?? 0) + (k.holding ?? 0), last: later(b.last, k.last), sample: (b.last ?? "") > (k.last ?? "") ? b.sample : k.sample,
      first: (b.first ?? "~") < (k.first ?? "~") ? b.first : k.first,
      receives: { min: Math.min(b.receives.min, k.receives.min), max: Math.max(b.receives.max, k.receives.max) },
    });
  }
  return [...all.values()].sort((a, b) => b.count - a.count);
}

interface Grouped {
  kinds: Kind[];
  grouped: number;
  next?: string;
}

// groupedMax is how many messages are grouped without being asked.
const groupedMax = 100_000;

export function Dead({ queue }: { queue: string }) {
  const [got, set] = useState<Grouped | null>(null);
  const [error, fail] = useState<Failed | null>(null);
  const [busy, setBusy] = useState(false);
  const walk = useRef<AbortController | null>(null);
  const open = route.value.query.get("kind") ?? ""; // a link to a kind opens it
  // Groups a thousand messages after another, with pauses in which a busy server does other work. What is
  // shown stays until as many are grouped again.
  const load = async (all: Grouped, shown: number) => {
    walk.current?.abort();
    const { signal } = (walk.current = new AbortController());
    const most = all.grouped + groupedMax;
    setBusy(true);
    try {
      do {
        const asked = performance.now();
        const r = await get<ReasonList>(`/queues/${encodeURIComponent(queue)}/reasons`, { limit: 1000, after: all.next }, signal);
        all = { kinds: add(all.kinds, r.kinds.filter((k) => k !== null)), grouped: all.grouped + r.grouped, next: r.next };
        if (!all.next || all.grouped >= Math.min(shown, most)) set(all);
        fail(null);
        if (all.next) await new Promise((go) => setTimeout(go, 6 * (performance.now() - asked)));
      } while (all.next && all.grouped < most && !signal.aborted);
    } catch (e) {
      if (!signal.aborted && e instanceof Failed) fail(e);
    }
    if (walk.current?.signal === signal) setBusy(false);
  };
  useEffect(() => {
    void load({ kinds: [], grouped: 0 }, got?.grouped ?? 0);
    return () => walk.current?.abort();
  }, [queue, epoch.value]);
  useCommands([
    cmd("Group the messages by their reason", "tenaq", "dead", "list", v(queue)),
    cmd("Send messages back to where they came from", "tenaq", "dead", "redrive", v(queue), "--text", "timeout"),
    cmd("Show what a redriver would do; it brings them back at the pace of their consumer", "tenaq", "redrive", "plan", v(queue)),
    cmd("Move all messages back", "tenaq", "move", "start", v(queue)),
  ]);
  return <Fragment>
    <Redriven queue={queue} />
    {error && error.status > 0 && <div class="problem" role="alert"><T text={error.message} /></div>}
    {!got && !error && <div class="loading">Grouping messages…</div>}
    {got && got.grouped === 0 && <Empty>The queue is empty.</Empty>}
    {got && got.grouped > 0 && <Fragment>
      <p class="lead">{plural(got.kinds.length, "kind")} of failure in {got.next ? "the first " : "all "}{plural(got.grouped, "message")}.
        Messages whose reasons differ only in ids, numbers and times are of one kind.</p>
      <Triage queue={queue} what={`all of ${queue}`} those="all" />
      <ul class="kinds">{got.kinds.map((k) => <li key={k.kind} class="kind">
        <button type="button" data-row class="kindhead" aria-expanded={open === k.kind} onClick={() => change({ kind: open === k.kind ? undefined : k.kind })}>
          <b class="number">{count(k.count)}</b>
          <span class="why">{k.reason ? <T text={k.reason} /> : "(no reason known)"}</span>
          <span class="dim"><Time at={k.first} /> to <Time at={k.last} /> · {k.receives.min === k.receives.max ? plural(k.receives.min, "receive") : `${k.receives.min} to ${k.receives.max} receives`}{k.holding ? ` · ${count(k.holding)} hold their groups` : ""}</span>
          {k.note && <span class="note" title={plain(`${k.note.by}, ${both(k.note.at)}`)}><T text={k.note.text} /></span>}
        </button>
        {open === k.kind && <div class="kindbody">
          <p>{k.sample.reason && <Fragment>Latest: <span class="why"><T text={k.sample.reason} /></span>, message </Fragment>}
            {!k.sample.reason && "A message: "}<MessageLink id={k.sample.messageId} /> · kind <code>{k.kind}</code></p>
          {(k.note || can("tenaq:NoteReason")) && <p class="bar">{k.note && <span>Note by <T text={k.note.by} />, <Time at={k.note.at} /></span>}
            {can("tenaq:NoteReason") && <button type="button" class="small" onClick={() => void ask((c) => <c.Note queue={queue} kind={k} />)}>Note…</button>}</p>}
          <Triage queue={queue} filter={{ kind: k.kind }} what={k.reason || "no reason known"} sample={k.sample.messageId} primary />
          <CommandList list={[
            cmd("Send them back to where they came from", "tenaq", "dead", "redrive", v(queue), "--kind", k.kind),
            cmd("Park them in another queue", "tenaq", "dead", "park", v(queue), "--to", v(parkingOf(queue)), "--kind", k.kind),
            cmd("Delete them", "tenaq", "dead", "delete", v(queue), "--kind", k.kind),
            cmd("Correct one of them", "tenaq", "dead", "edit", v(queue), k.sample.messageId, "--body-file", "fixed.json"),
          ]} /></div>}
      </li>)}</ul>
      {busy && got.next ? <p class="dim">Grouping more messages… <button type="button" class="small" onClick={() => { walk.current?.abort(); setBusy(false); }}>Stop</button></p>
        : got.next && <More ask={() => void load(got, 0)}>Group more messages</More>}
    </Fragment>}
  </Fragment>;
}

// Redriven is what the redriver of the queue does, if this server has one.
function Redriven({ queue }: { queue: string }) {
  const r = useGet<Redriver>(has("redrivers", "tenaq:ViewRedrivers") ? "/redrivers/" + encodeURIComponent(queue) : null, {}, 30_000).data;
  if (!r) return null;
  const state = r.state?.breaker.state;
  return <p><a href={link(["redrivers", queue])}>Redriver</a>: {state ? <Fragment>breaker <Badge kind={state === "OPEN" ? "bad" : state === "CLOSED" ? "good" : "busy"}>{state.toLowerCase().replace("_", " ")}</Badge>, {count(r.state!.onTheWay)} on the way</Fragment>
    : <Badge kind="bad">its state cannot be read</Badge>}{r.paused && <Fragment>, paused: <T text={r.paused} /></Fragment>}</p>;
}
