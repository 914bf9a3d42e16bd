// The outboxes of programs, as far as their relays report to this server.

import { Fragment, h } from "preact";
import type { Outbox, OutboxList } from "../api.gen";
import { useGet } from "../api";
import { cmd, CommandList, useCommands, v } from "../commands";
import { age, count } from "../format";
import { Age, Badge, Empty, Seen, T, Table, useTitle, Wait } from "../parts";
import { now } from "../state";

const every = 10_000, silent = 3 * 60_000;

const list = [cmd("Show what waits in an outbox, where TENAQ_OUTBOX names its database", "tenaq", "outbox", "status"), cmd("List the rows that were set aside, with the reasons", "tenaq", "outbox", "parked", "list"),
  cmd("Send rows again that were set aside", "tenaq", "outbox", "parked", "release", "--queue", v("orders"), "--run")].map((c) => ({ ...c, local: true }));
const start = [{ ...cmd("Make the table of the outbox in the database of your program", "tenaq", "outbox", "init", "--db", "postgres://app@db.example.com/app"), local: true },
  cmd("Send what is written to it to the queues of this server", "tenaq", "outbox", "relay", "--db", "postgres://app@db.example.com/app")];

const rows = (n: number | null) => n === null ? <span class="dim">–</span> : count(n);

export function Outboxes() {
  useTitle("Outbox");
  const asked = useGet<OutboxList>("/outbox", {}, every);
  useCommands([...list, ...start]);
  return <Fragment>
    <h1>Outbox<Seen at={asked.at} every={every} /></h1>
    <Wait of={asked}>{(d) => d.outboxes.length === 0 ? <Empty><h2>No relay of an outbox reports to this server</h2>
      <p>A program writes a message into the outbox of its database, in the transaction of what the message is about. A relay sends it, at least once, and reports to this server each minute.</p>
      <CommandList list={start} /></Empty> : <Fragment>
      <Table<Outbox> name="Outboxes" rows={d.outboxes} id={(o) => o.name} columns={[
        { name: "Outbox", cell: (o) => <T text={o.name} /> },
        { name: "Relay", wide: true, cell: (o) => <Relay o={o} /> },
        { name: "Pending", number: true, cell: (o) => rows(o.pending) },
        { name: "Due", number: true, cell: (o) => rows(o.due) },
        { name: "Oldest due", number: true, cell: (o) => <Age ms={o.oldestDueMs} /> },
        { name: "Set aside", number: true, cell: (o) => o.parked ? <span class="dead">{count(o.parked)}</span> : rows(o.parked) },
      ]} />
      <p class="dim">These are the numbers that relays have reported last. An outbox is in the database of its program: rows that were set aside are shown, released and discarded with <code>tenaq outbox parked</code>.</p></Fragment>}</Wait>
  </Fragment>;
}

function Relay({ o }: { o: Outbox }) {
  const ago = now.value - Date.parse(o.reported!) - 60_000; // of the end of that minute
  return ago > silent ? <Badge kind="bad">has not reported for {age(ago)}</Badge>
    : o.oldestDueMs > 300_000 ? <Badge kind="warn">rows are late</Badge> : <Badge kind="good">reports</Badge>;
}
