// The outboxes of programs, as far as their relays report to this server.

import { Fragment, h } from "preact";
import type { AsideList, AsideRow, Outbox, OutboxList } from "../api.gen";
import { useGet } from "../api";
import { cmd, CommandList, useCommands, v, type Command } from "../commands";
import { age, count } from "../format";
import { Age, Badge, Empty, Seen, T, Table, Time, useTitle, Wait } from "../parts";
import { link, now, route } from "../state";

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

// Aside shows the rows of an outbox that its relays no longer try to send. Only commands can put them
// back: they are in the database of a program, which the server does not know. [V1-21]
function Aside({ o }: { o: Outbox }) {
  const asked = useGet<AsideList>(`/outbox/${encodeURIComponent(o.name)}/parked`, {}, every);
  const title = "Rows of " + o.name + " that were set aside";
  return <section><h2><T text={title} /></h2><Wait of={asked}>{(d) => {
    const age = d.reported ? now.value - Date.parse(d.reported) : 0;
    if (d.rows.length === 0) return <p class="dim">{!o.parked ? "There are none." : d.reported ? "They are not known yet: the relay reports them every minute." : <Fragment>No relay has reported them: the relay is of an earlier version, or its key lacks <code>tenaq:ReportOutbox</code>. <code>tenaq outbox parked list</code> lists them.</Fragment>}</p>;
    const queues = [...new Set(d.rows.map((r) => r.queue))].slice(0, 5);
    return <Fragment>
      <p>Their queue refused them too often, or no queue could accept them, so no relay tries again. Fix the cause, then release them. The rows are in the database of the program, so use commands to release or discard them. <code>TENAQ_OUTBOX</code> must name that database:</p>
      <CommandList list={queues.map((q) => local(cmd(`Send the rows for ${q} again`, "tenaq", "outbox", "parked", "release", "--queue", v(q), "--run")))} />
      <Table<AsideRow> name={title} rows={d.rows} id={(r) => r.id} columns={[
        { name: "Row", cell: (r) => <code><T text={r.id} /></code> },
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
