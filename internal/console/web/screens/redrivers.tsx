// The redrivers of the server: what they send back, what they hold, and why.

import { Fragment, h } from "preact";
import { useState } from "preact/hooks";
import type { PlannedDecision, Redriver, RedriverBreaker, RedriverKind, RedriverList, RedriverPlan, RedriverState } from "../api.gen";
import { ask, attempt, type Change } from "../act";
import { useGet } from "../api";
import { cmd, CommandList, inRecords, same, type Same, useCommands, v } from "../commands";
import { age, count, plural } from "../format";
import { Badge, Empty, Fact, MessageLink, QueueLink, Seen, T, Table, Time, useTitle, Wait } from "../parts";
import { can, now, route, server, zone } from "../state";

const every = 5000, day = 86_400_000;

export function Redrivers() {
  const [, name] = route.value.path;
  useTitle("Redrivers");
  const there = server.value?.features.includes("redrivers") ?? false;
  const asked = useGet<RedriverList | Redriver>(there ? "/redrivers" + (name ? "/" + encodeURIComponent(name) : "") : null, {}, every);
  const all = asked.data === undefined ? [] : "redrivers" in asked.data ? asked.data.redrivers : [asked.data];
  const one = all.length === 1 ? all[0]!.queue : name ?? "orders-dlq";
  useCommands([cmd("Show the state of a redriver", "tenaq", "redrive", "status", v(one)), ...(all.length > 0 ? all.flatMap((r) => [plan(r), change(r)]) : [cmd("Show what the next step would do: it receives the dead letters that it looks at", "tenaq", "redrive", "plan", v(one))]),
    cmd("List what was parked", "tenaq", "redrive", "parked", "list", v(all.find((r) => r.queue === one)?.parking || "orders-parking"))]);
  return <Fragment>
    <h1>{name ? <Fragment><a class="up" href="#/redrivers">Redrivers</a> <span aria-hidden="true" class="dim">/</span> <T text={name} /></Fragment> : "Redrivers"}<Seen at={asked.at} every={every} /></h1>
    {!there ? <Missing /> : <Wait of={asked}>{() => <ul class="alarms">{all.map((r) => <One key={r.queue} r={r} />)}</ul>}</Wait>}
    {there && <p class="dim">Redrivers of other processes are not listed: <code>tenaq redrive status</code> shows those of any dead-letter queue.</p>}
  </Fragment>;
}

const example = `redrive:
  queues:
    - dead-letter: orders-dlq
      parking: orders-parking`;

function Missing() {
  return <Empty><h2>This server runs no redriver</h2>
    <p>A redriver sends dead letters back as fast as their consumer can handle them, and parks those that would only fail again. To run one, add this to the file that <code>tenaq serve --config</code> reads:</p>
    <pre>{example}</pre>
    <p>A redriver that runs elsewhere, with <code>tenaq redrive run</code>, is shown by <code>tenaq redrive status</code>.</p></Empty>;
}

const why = "paused in the console";

const change = (r: Redriver): Same => r.paused ? same("redriver-resume", "End the pause of " + r.queue, "tenaq", "redrive", "resume", v(r.queue), ...inRecords(r))
  : same("redriver-pause", "Pause " + r.queue, "tenaq", "redrive", "pause", v(r.queue), "--reason", why, ...inRecords(r));

const plan = (r: Redriver): Same => same("plan", "Show what the next step of " + r.queue + " would do: it receives the dead letters that it looks at",
  "tenaq", "redrive", "plan", v(r.queue), ...(r.target ? ["--target", v(r.target)] : []), ...r.flags, ...inRecords(r));

const states: Record<RedriverBreaker["state"], [kind: "good" | "bad" | "busy", text: string]> = {
  CLOSED: ["good", "closed"], OPEN: ["bad", "open"], HALF_OPEN: ["busy", "half open"],
};

function Breaker({ b }: { b: RedriverBreaker }) {
  const [kind, text] = states[b.state], left = b.halfOpenAt ? Date.parse(b.halfOpenAt) - now.value : 0;
  return <Fragment><Badge kind={kind}>{text}</Badge>{left > 0 && <span class="dim"> half open in {age(left)}</span>}</Fragment>;
}

function One({ r }: { r: Redriver }) {
  const s = r.state, [planned, setPlanned] = useState<RedriverPlan | null>(null);
  return <li class={"alarmbox" + (r.error || s?.breaker.state === "OPEN" ? " raised" : "")}>
    <div class="bar"><b><QueueLink name={r.queue} tab="dead" /></b>
      {s && <span>breaker <Breaker b={s.breaker} /></span>}{r.paused && <Badge kind="warn">paused</Badge>}
      {can("tenaq:ManageRedrivers") && <span class="acts apart"><Steer r={r} />{s && <button type="button" class="small" onClick={() => void ask((m) => <m.Plan r={r} same={plan(r)} done={setPlanned} />)}>Plan the next step…</button>}
        {s && !r.paused && <button type="button" class="small" onClick={() => void ask((m) => <m.Step r={r} />)}>Take a step…</button>}</span>}</div>
    {r.paused && <p class="why">Paused: <T text={r.paused} />. It sends back and parks nothing, but still follows the messages that are on the way.</p>}
    {r.error && <p class="problem" role="alert">Its state cannot be read: <T text={r.error} /></p>}
    {s?.warnings.map((text) => <p key={text} class="problem"><T text={text} /></p>)}
    {r.step?.error && <p class="problem">The latest step failed: <T text={r.step.error} /></p>}
    <dl class="facts">
      {s && <Numbers s={s} parking={r.parking} />}
      <Fact name="Sends to">{r.target ? <QueueLink name={r.target} /> : "the source of each message"}</Fact>
      <Fact name="Steps"><T text={r.schedule} />{r.step && <Fragment>; latest <Time at={r.step.ended} />{r.step.next && <Fragment>, next <Time at={r.step.next} /></Fragment>}</Fragment>}</Fact>
    </dl>
    {planned && <Planned p={planned} />}
    <Past r={r} />
    {s && (s.kinds.length > 0 ? <Table<RedriverKind> name={"Kinds of failure of " + r.queue} rows={s.kinds} id={(k) => k.kind} columns={[
      { name: "Kind", cell: (k) => <code><T text={k.kind} /></code> }, { name: "Messages", number: true, cell: (k) => k.messages >= 3 ? "3 or more" : count(k.messages) },
      { name: "Breaker", cell: (k) => <Breaker b={k.breaker} /> }, { name: "Last", cell: (k) => <Time at={k.last} /> },
      { name: "Reason", wide: true, cell: (k) => <T text={k.reason || "(no reason known)"} /> }]} /> : <p class="dim">No open kind of failure: either none was seen, or a message of each has succeeded since.</p>)}
    <details class="numbers"><summary>Commands</summary><CommandList list={[change(r), plan(r)]} /></details>
  </li>;
}

function Numbers({ s, parking }: { s: RedriverState; parking: string }) {
  const drains = s.deadLetters === 0 ? "there are no dead letters" : s.drainMs === null ? "unknown" : "in about " + age(s.drainMs);
  return <Fragment>
    <Fact name="Dead letters">{count(s.deadLetters)}{s.deadLetters > 0 && s.oldestMs !== null && <Fragment>, the oldest {age(s.oldestMs)}</Fragment>}; kept for {age(s.retentionMs)}</Fact>
    <Fact name="Drained" title="At the pace of the last hour, if no dead letters are added">{drains}</Fact>
    <Fact name="Rate">{count(s.rate)} at once{s.rateDoubles && ", doubling while nothing fails"}</Fact>
    <Fact name="On the way">{count(s.onTheWay)}{s.canaries > 0 && `, ${plural(s.canaries, "canary", "canaries")} among them`}</Fact>
    <Fact name="So far">{count(s.redriven)} redriven, {count(s.succeeded)} succeeded, {count(s.failed)} failed again</Fact>
    <Fact name="Parked">{count(s.parked)} in <QueueLink name={parking} tab="dead" /></Fact>
  </Fragment>;
}

const actions: Record<PlannedDecision["action"], [kind: "good" | "bad" | "idle", text: string]> = {
  redrive: ["good", "goes back"], park: ["bad", "is parked"], hold: ["idle", "stays"],
};
const order = Object.keys(actions);

// Planned is what the next step would have done when a person asked. [V1-20]
function Planned({ p }: { p: RedriverPlan }) {
  const seen = p.redrive + p.park + p.hold;
  const none = p.breaker.state === "OPEN" ? "The breaker is open, so a step sends and parks nothing."
    : p.deadLetters === 0 ? "There are no dead letters." : "None of them can be received now: they are hidden, or the rate has no room for more.";
  return <section class="planned">
    <h3>The next step, as planned at <Time at={p.made} /></h3>
    {p.paused && <p>It is paused: <T text={p.paused} />. This is the first step after <b>Resume</b>.</p>}
    <p>{seen === 0 ? none : <Fragment>Of {plural(p.deadLetters, "dead letter")}, {count(seen)} {seen === 1 ? "was" : "were"} looked at: <b>{count(p.redrive)}</b> would go back, <b>{count(p.park)}</b> would be parked, <b>{count(p.hold)}</b> would stay. Then {count(p.onTheWay)} of at most {count(p.rate)} are on the way.</Fragment>}</p>
    {Date.parse(p.hiddenUntil ?? "") > now.value && <p class="dim">Some messages could not be given back. They are hidden until <Time at={p.hiddenUntil} />: a step before then does not see them.</p>}
    {seen > p.decisions.length && <p class="dim">The first {count(p.decisions.length)} are shown.</p>}
    {seen > 0 && <Table<PlannedDecision> name={"What the next step of " + p.queue + " would do"} rows={[...p.decisions].sort((a, b) => order.indexOf(a.action) - order.indexOf(b.action))} id={(d) => d.messageId} columns={[
      { name: "Message", cell: (d) => <MessageLink id={d.messageId} /> },
      { name: "Step", cell: (d) => <Badge kind={actions[d.action][0]}>{actions[d.action][1]}</Badge> },
      { name: "When", cell: (d) => d.until ? <Fragment>not before <Time at={d.until} /></Fragment> : d.delayMs > 0 ? <Fragment>after {age(d.delayMs)}</Fragment> : <span class="dim">–</span> },
      { name: "Redrives", number: true, cell: (d) => count(d.redrives) },
      { name: "Why, and why it failed", wide: true, cell: (d) => <Fragment><T text={d.why} /><div class="dim"><T text={d.reason || "(no reason known)"} /></div></Fragment> }]} />}
  </section>;
}

// Steer pauses a redriver and ends its pause. What was the reason before comes back with Undo.
function Steer({ r }: { r: Redriver }) {
  const path = "/redrivers/" + encodeURIComponent(r.queue), where: [string[], string] = [["redrivers"], "Show the redrivers"];
  const me = server.value?.caller.user ?? server.value?.caller.key ?? "unsigned", mine = ` (${me})`;
  const resume: Change = ({ post }) => post(path + "/resume", {});
  const pause = (reason: string): Change => ({ post }) => post(path + "/pause", { reason: reason.endsWith(mine) ? reason.slice(0, -mine.length) : reason });
  return <button type="button" class="small" onClick={() => void (r.paused ? attempt(change(r), resume, { text: `Ended the pause of ${r.queue}.`, undo: pause(r.paused), where })
    : attempt(change(r), pause(why), { text: `Paused the redrivers of ${r.queue}.`, undo: resume, where }))}>{r.paused ? "Resume" : "Pause"}</button>;
}

// Past is what the breaker was in the last day: as a band, and as a list.
function Past({ r }: { r: Redriver }) {
  void zone.value;
  const from = now.value - day;
  const parts: [state: string, ms: number][] = [];
  let at = from;
  for (const s of r.history) {
    const begin = Math.max(Date.parse(s.from!), from), end = Math.min(Date.parse(s.to!), now.value);
    if (end <= begin) continue;
    if (begin > at) parts.push(["", begin - at]);
    parts.push([s.state, end - begin]);
    at = end;
  }
  if (!parts.length) return <p class="dim">The breaker of the last day is not known yet: the redriver reports it every minute.</p>;
  if (now.value > at) parts.push(["", now.value - at]);
  return <Fragment>
    <div class="band" role="img" aria-label={`The breaker of ${r.queue} in the last 24 hours; the list below has the same`}>{parts.map(([state, ms], i) => <span key={i} class={"b" + state} style={{ flexGrow: ms / 1000 }} />)}</div>
    <details class="numbers"><summary>Breaker in the last 24 hours</summary><ul>{[...r.history].reverse().slice(0, 50).map((s) => <li key={s.from}><Badge kind={states[s.state][0]}>{states[s.state][1]}</Badge> from <Time at={s.from} /> to <Time at={s.to} /></li>)}</ul></details>
  </Fragment>;
}
