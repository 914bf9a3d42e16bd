// Messages that have ended, in queues that keep a history.

import { Fragment, h } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { KeptList, Outcome, OutcomeList } from "../api.gen";
import { Failed, get, useLatest } from "../api";
import { cmd, CommandList, useCommands, v as word } from "../commands";
import { bytes, count, plain, plural } from "../format";
import { Badge, Choice, Empty, Field, MessageLink, More, QueueLink, T, Table, Time } from "../parts";
import { change, epoch, link, route } from "../state";
import { Attributes, Body, Story } from "./message";

const outcomes = ["deleted", "expired", "dead_lettered", "moved", "parked", "replaced", "removed"];
const filters: [string, string][] = [["id", "Message id"], ["lineage", "Lineage id"], ["key", "Key of the work"], ["group", "Group"], ["attribute", "Attribute"], ["text", "Text in the body"]];

const kindOf = (o: string) => (o === "deleted" ? "good" : o === "expired" || o === "dead_lettered" ? "bad" : "idle");

export function History({ queue, tags }: { queue: string; tags?: Record<string, string> }) {
  const q = route.value.query;
  const query: Record<string, string> = {};
  for (const name of ["outcome", ...filters.map(([f]) => f)]) query[name] = q.get(name) ?? "";
  const open = q.get("open") ?? "";
  const [list, set] = useState<Outcome[] | null>(null);
  const [kept, setKept] = useState<KeptList | null>(null);
  const [next, setNext] = useState<string | undefined>();
  const [error, fail] = useState<Failed | null>(null);
  const [busy, setBusy] = useState(false);
  const key = JSON.stringify(query);
  const latest = useLatest();
  const load = async (after: string, before: Outcome[]) => {
    setBusy(true);
    try {
      const got = await latest(get<OutcomeList>(`/queues/${encodeURIComponent(queue)}/history`, { ...query, after, limit: 50, body: 1 << 14, attributes: true }));
      set([...before, ...got.outcomes]);
      setKept(got.kept);
      setNext(got.next);
      fail(null);
    } catch (e) {
      if (e instanceof Failed) fail(e);
    }
    setBusy(false);
  };
  useEffect(() => void load("", []), [queue, key, epoch.value]);
  const options = Object.entries(query).filter(([, x]) => x).flatMap(([k, x]) => ["--" + k, word(x)]);
  useCommands([
    cmd("Search the history", "tenaq", "history", word(queue), ...options),
    cmd("Print the whole history as JSON lines, oldest first", "tenaq", "history", word(queue), "--json", "--oldest"),
    cmd("Keep a history from now on", "tenaq", "queue", "tag", word(queue), "tenaq:history=7d/1GiB"),
  ]);
  const none = kept && kept.outcomes === 0 && tags && !tags["tenaq:history"];
  return <Fragment>
    {none ? <Empty><h2>This queue keeps no history</h2><p>With the tag <code>tenaq:history</code>, a queue keeps every message that ends, and what became of it, for as long or as much as the tag says.</p>
      <CommandList list={[cmd("Keep a history from now on", "tenaq", "queue", "tag", word(queue), "tenaq:history=7d/1GiB")]} /></Empty> : <Fragment>
      <div class="filters" role="search" aria-label="History">
        <Choice name="Outcome" value={query.outcome} values={[["", "all"], ...outcomes.map((o): [string, string] => [o, o.replace("_", " ")])]} set={(v) => change({ outcome: v })} />
        {filters.map(([name, label]) => <Field key={name} name={label} value={query[name]} set={(v) => change({ [name]: v })} hint={name === "attribute" ? "name or name=value" : ""} />)}
      </div>
      {kept && <p class="lead">{plural(kept.outcomes, "message")} kept, {bytes(kept.bytes)}{kept.oldest ? <Fragment>, since <Time at={kept.oldest} /></Fragment> : ""}.</p>}
    </Fragment>}
    {error && error.status > 0 && <div class="problem" role="alert"><T text={error.message} /></div>}
    {!list && !error && <div class="loading">Loading…</div>}
    {list?.length === 0 && !none && !next && <Empty>Nothing in the history matches.</Empty>}
    {list && list.length > 0 && <div class={open ? "split open" : "split"}><div class="master">
      <Table name="Messages that have ended" rows={list} id={(o) => o.messageId + o.ended} of={(o) => (o.messageId === open ? "true" : undefined)} columns={[
        { name: "Ended", cell: (o) => <Time at={o.ended} /> },
        { name: "Outcome", cell: (o) => <Badge kind={kindOf(o.outcome)}>{o.outcome.replace("_", " ")}</Badge> },
        { name: "Message", cell: (o) => <a data-row class="mono" title={o.messageId} href={link(["q", queue, "history"], { ...query, open: o.messageId })}>{o.messageId.slice(0, 8)}</a> },
        { name: "Receives", number: true, cell: (o) => count(o.receiveCount) },
        { name: "Key", cell: (o) => <T text={o.key ?? ""} /> },
        { name: "Reason or body", wide: true, cell: (o) => <span class="preview">{o.reason ? <span class="reason"><T text={o.reason} /> · </span> : null}{plain((o.body ?? "").slice(0, 200).replace(/\s+/g, " "))}</span> },
      ]} />
    </div>{open && list.filter((o) => o.messageId === open).slice(0, 1).map((o) => <Ended o={o} key={o.messageId} />)}</div>}
    {next && <More ask={() => void load(next, list ?? [])} busy={busy}>{list?.length === 0 ? "Search further back" : "More"}</More>}
  </Fragment>;
}

function Ended({ o }: { o: Outcome }) {
  return <aside class="detail" aria-label="The message"><div class="bar"><button type="button" class="small" onClick={() => change({ open: undefined })}>Close</button></div>
    <article class="message">
      <header><Badge kind={kindOf(o.outcome)}>{o.outcome.replace("_", " ")}</Badge><span class="mono id">{o.messageId}</span></header>
      <ol class="timeline">
        {o.firstSent !== o.sent && <li><Time at={o.firstSent} /> <span>work first sent, as <MessageLink id={o.lineageId} /></span></li>}
        <li><Time at={o.sent} /> <span>entered this queue</span></li>
        {o.firstReceive && <li><Time at={o.firstReceive} /> <span>first received</span></li>}
        {o.lastReceive && o.receiveCount > 1 && <li><Time at={o.lastReceive} /> <span>last received; {count(o.receiveCount)} receives in all</span></li>}
        <li><Time at={o.ended} /> <span>{o.outcome.replace("_", " ")}{o.to && <Fragment>, to <QueueLink name={o.to} /></Fragment>}</span></li>
      </ol>
      {o.reason && <section><h3>Why it failed</h3><p class="why"><T text={o.reason} /></p></section>}
      {o.story && o.story.length > 0 && <Story story={o.story} />}
      <Body text={o.body ?? ""} cut={o.bodyCut ?? false} size={o.size} id={o.messageId} />
      <Attributes of={o.attributes} id={o.messageId} />
    </article></aside>;
}
