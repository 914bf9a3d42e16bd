// The life of one piece of work: where it is now, and what happened to it. [TRACE-1]

import { Fragment, h } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Claim, Event, Message, QueueList, TaskCount, Trace } from "../api.gen";
import { countOf, Failed, get, useLatest, useWalk } from "../api";
import { cmd, useCommands, v } from "../commands";
import { age, plural } from "../format";
import { Badge, Empty, MessageLink, More, QueueLink, say, State, T, Time, useTitle } from "../parts";
import { epoch, link, now, route, server, zone } from "../state";

const uuid = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

export function TracePage() {
  const asked = route.value.path[1] ?? "";
  useTitle("Life of " + asked.slice(0, 40));
  useCommands([cmd("Show the life of this work", "tenaq", "trace", v(asked)), cmd("The same as JSON", "tenaq", "trace", v(asked), "--json")]);
  return <Fragment><h1>Life of <T text={asked} /></h1><Life asked={asked} now key={asked} /></Fragment>;
}

// Life is what happened to a piece of work, and where it is now if that is asked.
export function Life({ asked, ledger, now: where }: { asked: string; ledger?: string; now?: boolean }) {
  const [got, set] = useState<Trace | null>(null), [error, fail] = useState<Failed | null>(null), [busy, setBusy] = useState(false);
  const latest = useLatest();
  const load = async (before: Trace | null) => {
    setBusy(true);
    try {
      const t = await latest(get<Trace>("/trace", { ...(uuid.test(asked) ? { id: asked } : { key: asked }), ledger, after: before?.next }));
      set(before ? { ...t, events: joined(before.events, t.events), unknown: [...before.unknown, ...t.unknown] } : t);
      fail(null);
    } catch (e) {
      if (e instanceof Failed) fail(e);
    }
    setBusy(false);
  };
  useEffect(() => void load(null), [asked, ledger, epoch.value]);
  const nothing = got && !got.events.length && !got.messages.length && !got.claims.length && !got.registrations.length;
  return <Fragment>
    {error && error.status > 0 && error.status !== 404 && <div class="problem" role="alert"><T text={error.message} /></div>}
    {!got && !error && <div class="loading">Looking…</div>}
    {(nothing || error?.status === 404) && <Empty>{error ? <p><T text={error.message} /></p> : <h2>Nothing is known of this work</h2>}
      <p>Producers and workers name their work by a key. To find a message that was sent without a key, search for its id, or for a text in its body.</p>
      {where && server.value?.allowed.includes("tenaq:PeekMessages") && <Everywhere text={asked} />}</Empty>}
    {got && !nothing && <Fragment>
      {where && <Now t={got} />}
      <h2>What happened</h2>
      <ol class="timeline life">{[...got.events].reverse().map((e, i) => <li key={i} class={kindOf(e)}><One e={e} /></li>)}</ol>
      {!got.events.length && <p class="dim">No event is known.</p>}
      {got.next && <More ask={() => void load(got)} busy={busy}>Search more histories</More>}
    </Fragment>}
    {got && got.unknown.length > 0 && <details class="numbers"><summary>{plural(got.unknown.length, "thing")} that cannot be shown</summary>
      <ul>{[...new Set(got.unknown.map((u) => u.text))].map((text) => <li key={text}><T text={text} /></li>)}</ul></details>}
  </Fragment>;
}

interface Searched {
  hits: { queue: string; count: number; samples: Message[] }[];
  queues: number;
  looked: number;
  refused: number;
  left: string[]; // queues of this page
  next?: string; // the page after
  after?: string; // in the first of them
}

// Everywhere searches the bodies of all queues, some thousand messages at a time. [CONSOLE-18]
function Everywhere({ text }: { text: string }) {
  const { got, busy, error, start, stop } = useWalk<Searched>(async (before, signal) => {
    const s = { ...before ?? { hits: [], queues: 0, looked: 0, refused: 0, left: [] } };
    if (s.left.length === 0) {
      const list = await get<QueueList>("/queues", { prefix: "", after: s.next, limit: 50 }, signal);
      s.left = list.queues.filter((q) => q.visible + q.inFlight + q.delayed > 0).map((q) => q.name);
      s.next = list.next;
    } else {
      const [queue, ...left] = s.left as [string, ...string[]];
      let more: Partial<TaskCount> = {};
      try {
        more = await countOf({ queue, filter: { text }, ...(s.after ? { after: s.after } : {}) }, signal);
      } catch (e) {
        if (!(e instanceof Failed) || (e.status !== 403 && e.status !== 404)) throw e;
        s.refused++;
        s.queues--;
      }
      const { count: n = 0, skipped = 0, looked = 0, samples = [], next } = more;
      s.looked += looked;
      s.after = next;
      if (n + skipped > 0) {
        const hit = s.hits.find((h) => h.queue === queue) ?? { queue, count: 0, samples: [] };
        s.hits = [...s.hits.filter((h) => h !== hit), { queue, count: hit.count + n + skipped, samples: [...hit.samples, ...samples].slice(0, 3) }];
      }
      if (!next) [s.left, s.queues] = [left, s.queues + 1];
    }
    return [s, s.left.length === 0 && !s.next];
  });
  const said = got && `Scanned ${plural(got.looked, "message")} of ${plural(got.queues, "queue")}${got.refused ? `; ${plural(got.refused, "queue")} could not be read` : ""}.`;
  useEffect(() => {
    if (said && !busy) say(said);
  }, [busy]);
  return <div class="search">
    {error && <div class="problem" role="alert"><T text={error} /></div>}
    {got && <p>{said} {got.hits.length === 0 && "No message that was read has this text in its body."}</p>}
    {got && got.hits.length > 0 && <ul class="plain">{got.hits.map(({ queue, count: n, samples }) => <li key={queue}><a href={link(["q", queue, "messages"], { text })}><T text={queue} /></a>: {plural(n, "message")} {samples.map((m) => <Fragment key={m.messageId}><MessageLink id={m.messageId} /> </Fragment>)}</li>)}</ul>}
    {(busy || !got || got.left.length > 0 || got.next) && <button type="button" class="small" onClick={() => void (busy ? stop() : start())}>{busy ? "Stop" : got ? "Search further" : "Search the bodies of all queues"}</button>}
  </div>;
}

function joined(a: Event[], b: Event[]): Event[] {
  const all = new Map([...a, ...b].map((e) => [JSON.stringify(e), e]));
  return [...all.values()].sort((x, y) => Date.parse(x.at ?? "") - Date.parse(y.at ?? "") || 0);
}

// Now is where the work is.
function Now({ t }: { t: Trace }) {
  return <dl class="facts now">
    {t.keys.length > 0 && <div class="fact"><dt>{t.keys.length === 1 ? "Key" : "Keys"}</dt><dd><T text={t.keys.join(", ")} /></dd></div>}
    {t.messages.map((m) => <div class="fact" key={m.place}><dt>Message</dt><dd><MessageLink id={m.messageId} /> <State state={m.state} /> in {m.queue && <QueueLink name={m.queue} />}, {plural(m.receiveCount, "receive")}</dd></div>)}
    {t.messages.length === 0 && <div class="fact"><dt>Message</dt><dd class="dim">in none of the queues that were searched</dd></div>}
    {t.claims.map((c) => <div class="fact" key={c.ledger + c.key + c.generation}><dt>Claim</dt><dd><ClaimText c={c} /></dd></div>)}
    {t.registrations.map((r) => <div class="fact" key={r.queue + r.key + r.generation}><dt>Registered</dt><dd>for <QueueLink name={r.queue} />, {r.state === "completed" ? "sent" : r.leaseOver ? "not known to be sent" : r.state}</dd></div>)}
  </dl>;
}

function ClaimText({ c }: { c: Claim }) {
  const kind = c.state === "completed" ? "good" : c.state === "held" && !c.leaseOver ? "busy" : c.state === "released" ? "idle" : "bad";
  return <Fragment><Badge kind={kind}>{c.leaseOver ? "held, lease expired" : c.state}</Badge>{c.owner && <Fragment> by <T text={c.owner} /></Fragment>}
    {c.attempts > 1 && `, attempt ${c.attempts}`}{c.result !== undefined && <Fragment>, result <T text={c.result} /></Fragment>}{c.reason && <Fragment>: <T text={c.reason} /></Fragment>}</Fragment>;
}

const good = ["completed", "deleted"], bad = ["dead_lettered", "lease_over", "awaiting_decision", "send_failed", "failed", "exhausted", "expired", "removed"];
const kindOf = (e: Event) => good.includes(e.what) ? "good" : bad.includes(e.what) || e.verdict === "poison" ? "bad" : "";

const words: Partial<Record<Event["what"], string>> = { dead_lettered: "dead letter", awaiting_decision: "undecided", lease_over: "lease expired", send_failed: "send failed" };

function One({ e }: { e: Event }) {
  void zone.value;
  return <Fragment>{e.at ? <Time at={e.at} /> : <time>time unknown</time>}{e.clock === "client" && <span class="dim" title="by the clock of a client"> ~</span>}
    <b>{words[e.what] ?? e.what.replace("_", " ")}</b>{e.verdict && e.verdict !== e.what && <Fragment> · {e.verdict}</Fragment>}
    {e.queue && <Fragment> in <QueueLink name={e.queue} /></Fragment>}{e.from && <Fragment> from <QueueLink name={e.from} /></Fragment>}{e.to && <Fragment> to <QueueLink name={e.to} /></Fragment>}
    {e.receive ? ` · receive ${e.receive}` : ""}{e.owner && <Fragment> · <T text={e.owner} /></Fragment>}{e.messageId && <Fragment> · <MessageLink id={e.messageId} /></Fragment>}
    {e.newMessageId && <Fragment> → <MessageLink id={e.newMessageId} /></Fragment>}
    {(e.class || e.text) && <span class="why"> {e.class && <b><T text={e.class} />: </b>}<T text={e.text ?? ""} /></span>}
    {e.at && <span class="dim"> {age(now.value - Date.parse(e.at))} ago</span>}</Fragment>;
}
