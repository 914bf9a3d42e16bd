// The outboxes of programs, as far as their relays report to this server.

import { Fragment, h } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { AsideList, AsideOrder, AsideRow, Outbox, OutboxList } from "../api.gen";
import { ask, attempt, type Change, type Said } from "../act";
import { useGet } from "../api";
import { cmd, CommandList, same, useCommands, v, type Command } from "../commands";
import { age, count, plural } from "../format";
import { Age, Badge, Empty, Seen, T, Table, Time, useTitle, Wait } from "../parts";
import { can, link, now, paused, route } from "../state";

const every = 10_000, silent = 3 * 60_000;

const local = (c: Command): Command => ({ ...c, local: true });
const list = [cmd("Show what waits in an outbox, where TENAQ_OUTBOX names its database", "tenaq", "outbox", "status"), cmd("List the rows that were set aside, with the reasons", "tenaq", "outbox", "parked", "list"),
  cmd("Send rows again that were set aside", "tenaq", "outbox", "parked", "release", "--queue", v("orders"), "--run")].map(local);
const start = [local(cmd("Make the table of the outbox in the database of your program", "tenaq", "outbox", "init", "--db", "postgres://app@db.example.com/app")),
  cmd("Send what is written to it to the queues of this server", "tenaq", "outbox", "relay", "--db", "postgres://app@db.example.com/app")];

const rows = (n: number | null) => n === null ? <span class="dim">–</span> : count(n);

export function Outboxes() {
  const [, name] = route.value.path;
  useTitle(name ? "Outbox " + name : "Outbox");
  const asked = useGet<OutboxList>("/outbox", {}, every);
  useCommands([...list, ...start]);
  return <Fragment>
    <h1>{name ? <Fragment><a class="up" href="#/outbox">Outbox</a> <span aria-hidden="true" class="dim">/</span> <T text={name} /></Fragment> : "Outbox"}<Seen at={asked.at} every={every} /></h1>
    <Wait of={asked}>{(d) => {
      const of = name ? d.outboxes.filter((o) => o.name === name) : d.outboxes, aside = of.filter((o) => name || o.parked);
      return of.length === 0 ? <Empty><h2>No relay of {name ? "this" : "an"} outbox reports to this server</h2>
        <p>A program writes a message to the outbox in its database, in the same transaction as the change that the message reports. A relay sends the message at least once, and reports to this server every minute.</p>
        <CommandList list={start} /></Empty> : <Fragment>
        <Table<Outbox> name="Outboxes" rows={of} id={(o) => o.name} columns={[
          { name: "Outbox", cell: (o) => <a href={link(["outbox", o.name])} data-row><T text={o.name} /></a> },
          { name: "Relay", wide: true, cell: (o) => <Relay o={o} /> },
          { name: "Pending", number: true, cell: (o) => rows(o.pending) },
          { name: "Due", number: true, cell: (o) => rows(o.due) },
          { name: "Oldest due", number: true, cell: (o) => <Age ms={o.oldestDueMs} /> },
          { name: "Set aside", number: true, cell: (o) => o.parked ? <span class="dead">{count(o.parked)}</span> : rows(o.parked) },
        ]} />
        {d.more && !name && <p class="problem">Only the first {count(d.outboxes.length)} outboxes are shown.</p>}
        <p class="dim">These are the latest numbers that relays have reported.</p>
        {aside.slice(0, 3).map((o) => <Aside key={o.name} o={o} />)}</Fragment>;
    }}</Wait>
  </Fragment>;
}

function Relay({ o }: { o: Outbox }) {
  const ago = now.value - Date.parse(o.reported!) - 60_000; // of the end of that minute
  return ago > silent ? <Badge kind="bad">has not reported for {age(ago)}</Badge>
    : o.oldestDueMs > 300_000 ? <Badge kind="warn">rows are late</Badge> : <Badge kind="good">reports</Badge>;
}

type Verb = AsideOrder["do"];

// order is what a relay of an outbox is to do with rows, the command for it, and what is said.
function order(outbox: string, verb: Verb, rows: AsideRow[], all: boolean) {
  const path = `/outbox/${encodeURIComponent(outbox)}/parked/${verb}`, n = plural(rows.length, "row"), release = verb === "release";
  const change: Change = ({ post }) => post(path, { rows: rows.map(({ id, parkedAt }) => ({ id, parkedAt })) });
  const words = [...(all ? ["--all"] : rows.map((r) => v(r.id))), "--relay", v(outbox), ...(all || !release ? ["--run"] : [])];
  return { n, change, done: { text: `Ordered: a relay of ${outbox} ${release ? "releases" : "discards"} ${n} within 10 s.` },
    same: release ? same("row-release", `Let a relay send ${n} again`, "tenaq", "outbox", "parked", verb, ...words) : same("row-discard", `Let a relay delete ${n}`, "tenaq", "outbox", "parked", verb, ...words) };
}

// Decide asks before all rows are released, or any are discarded.
function Decide({ m, outbox, verb, rows, all }: { m: typeof import("../change"); outbox: string; verb: Verb; rows: AsideRow[]; all: boolean }) {
  const [text, type] = useState(""), o = order(outbox, verb, rows, all), danger = verb === "discard";
  const act: Change<Said> = async (send) => {
    await o.change(send);
    return o.done;
  };
  return <m.Act title={`${danger ? "Discard" : "Release"} ${o.n} of ${outbox}`} label={`${danger ? "Discard" : "Release"} ${o.n}`} danger={danger} harmless={danger ? undefined : false} ready={!danger || text === String(rows.length)} act={act} same={o.same}>
    <p id="act-about">{danger ? `The relay deletes ${o.n} from the database of the program. The messages are never sent, and this cannot be taken back.` : `The relay sends ${o.n} again, each at the end of its group and with all its attempts. A row that its queue still refuses is set aside again.`}</p>
    <ul class="samples" aria-label="Rows">{rows.slice(0, 3).map((r) => <li key={r.id}><T text={[r.id, r.queue, r.key, r.reason].filter(Boolean).join(" · ")} /></li>)}</ul>
    {danger && <m.Typed want={String(rows.length)} of="the number of rows" value={text} set={type} />}
  </m.Act>;
}

// Aside shows the rows of an outbox that its relays no longer try to send. They are in the database of
// a program, which the server does not know: a relay that takes orders carries out what an operator
// decides, and where none does, only commands can. [V1-21, V1-27]
function Aside({ o }: { o: Outbox }) {
  const asked = useGet<AsideList>(`/outbox/${encodeURIComponent(o.name)}/parked`, {}, every);
  const title = "Rows of " + o.name + " that were set aside", waits = (asked.data?.orders.length ?? 0) > 0;
  useEffect(() => { // a relay that takes an order needs a few seconds
    if (!waits || paused.value) return;
    const soon = setTimeout(asked.again, 2000);
    return () => clearTimeout(soon);
  }, [waits, asked.at, paused.value]);
  return <section><h2><T text={title} /></h2><Wait of={asked}>{(d) => {
    const age = d.reported ? now.value - Date.parse(d.reported) : 0;
    if (d.rows.length === 0) return <p class="dim">{!o.parked ? "There are none." : d.reported && age < silent ? <Fragment>There were none at <Time at={d.reported} />.</Fragment> : d.reported ? "They are not known yet: the relay reports them every minute." : <Fragment>No relay has reported them: the relay is of an earlier version, or its key lacks <code>tenaq:ReportOutbox</code>. <code>tenaq outbox parked list</code> lists them.</Fragment>}</p>;
    const queues = [...new Set(d.rows.map((r) => r.queue))].slice(0, 5), may = can("tenaq:ManageOutbox");
    const takes = (verb: Verb) => may && d.takes.includes(verb), ordered = (r: AsideRow) => d.orders.find((o) => o.id === r.id && o.parkedAt === r.parkedAt);
    const decide = (verb: Verb, rows: AsideRow[], all: boolean) => void ask((m) => <Decide m={m} outbox={o.name} verb={verb} rows={rows} all={all} />);
    const bulk = (verb: Verb, label: string) => takes(verb) && !waits && <button type="button" class={verb === "discard" ? "danger" : ""} onClick={() => decide(verb, d.rows, true)}>{label} {d.more ? "these" : "all"} {count(d.rows.length)}…</button>;
    const one = (r: AsideRow) => {
      const is = ordered(r), it = order(o.name, "release", [r], false);
      return is ? <Badge kind="busy">{is.do === "release" ? "is released" : "is discarded"}</Badge> : (takes("release") || takes("discard")) && <span class="acts">
        {takes("release") && <button type="button" class="small" aria-label={"Release " + r.id} onClick={() => void attempt(it.same, it.change, it.done)}>Release</button>}
        {takes("discard") && <button type="button" class="small" aria-label={"Discard " + r.id} onClick={() => decide("discard", [r], false)}>Discard…</button>}</span>;
    };
    return <Fragment>
      <p>Their queue refused them too often, or no queue could accept them, so no relay tries again. Fix the cause, then release them. {takes("release") ? "The rows are in the database of the program: its relay carries out what you order, within 10 s."
        : <Fragment>The rows are in the database of the program{may && ", and no relay takes orders now: it is of an earlier version, runs with "}{may && <code>--orders none</code>}{may && ", or has not reported lately"}. Use commands to release or discard them. <code>TENAQ_OUTBOX</code> must name that database:</Fragment>}
        {takes("release") && !takes("discard") && <Fragment> The relay runs without <code>--orders all</code>, so it discards no rows. The commands of a row do that where the database is.</Fragment>}</p>
      {takes("release") ? <p class="acts">{bulk("release", "Release")}{bulk("discard", "Discard")}</p>
        : <CommandList list={queues.map((q) => local(cmd(`Send the rows for ${q} again`, "tenaq", "outbox", "parked", "release", "--queue", v(q), "--run")))} />}
      {waits && <p role="status">Ordered by <T text={[...new Set(d.orders.map((o) => o.by))].join(", ")} />: {count(d.orders.length)} of {plural(d.rows.length, "row")}. A row that is still here ten minutes later was not reached by the order.</p>}
      <Table<AsideRow> name={title} rows={d.rows} id={(r) => r.id} columns={[
        { name: "Row", cell: (r) => <Fragment><code><T text={r.id} /></code> {one(r)}</Fragment> },
        { name: "Queue", cell: (r) => <T text={r.queue} /> },
        { name: "Set aside", cell: (r) => <Time at={r.parkedAt} /> },
        { name: "Attempts", number: true, cell: (r) => count(r.attempts) },
        { name: "Reason", wide: true, cell: (r) => <Fragment><T text={r.reason || "(no reason known)"} />{(r.key || r.type) && <div class="dim"><T text={[r.type, r.key].filter(Boolean).join(" ")} /></div>}
          <details class="numbers"><summary>Commands</summary><CommandList list={act(r)} /></details></Fragment> },
      ]} />
      <p class="dim">As reported {age < silent ? "at" : "last at"} <Time at={d.reported} />.{d.more && <Fragment> Others were set aside later: <code>tenaq outbox parked list</code> lists all.</Fragment>}</p></Fragment>;
  }}</Wait></section>;
}

const act = (r: AsideRow) => [cmd("Show the row, with its body", "tenaq", "outbox", "parked", "show", v(r.id)), cmd("Send it again", "tenaq", "outbox", "parked", "release", v(r.id)),
  cmd("Delete it: its message is never sent", "tenaq", "outbox", "parked", "discard", v(r.id), "--run")].map(local);
