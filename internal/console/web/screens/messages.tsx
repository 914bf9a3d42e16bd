// The message browser: looking receives nothing.

import { Fragment, h } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Filter, Message, MessageList, TaskCount } from "../api.gen";
import { countOf, Failed, get, useLatest, useWalk } from "../api";
import { cmd, useCommands, v } from "../commands";
import { age, bytes, count, plain, plural } from "../format";
import { Choice, Empty, Field, MessageLink, More, say, State, T, Table, Time } from "../parts";
import { change, epoch, link, route } from "../state";
import { Triage } from "../triage";
import { MessageView } from "./message";

const page = 50, preview = 200;

export function Messages({ queue, fifo, holds }: { queue: string; fifo: boolean; holds: number }) {
  const q = route.value.query;
  const state = q.get("state") ?? "", text = q.get("text") ?? "", at = q.get("at") ?? "";
  const attribute = q.get("attribute") ?? "", group = q.get("group") ?? "", receives = q.get("receives") ?? "", limited = attribute + group + receives !== "";
  const [name = "", value = ""] = attribute.split(/=(.*)/s);
  const filter: Filter = {
    ...(text ? { text } : {}), ...(group ? { group } : {}), ...(Number(receives) > 0 ? { receivesMin: Number(receives) } : {}), ...(attribute.includes("=") ? { attributes: { [name]: value } } : {}),
  };
  const [list, set] = useState<Message[] | null>(null);
  const [next, setNext] = useState<string | undefined>();
  const [error, fail] = useState<Failed | null>(null);
  const [busy, setBusy] = useState(false);
  const latest = useLatest();
  const path = `/queues/${encodeURIComponent(queue)}/messages`;
  const load = async (after: string, before: Message[]) => {
    setBusy(true);
    try {
      const got = await latest(get<MessageList>(path, { state, after, limit: page, body: preview, trail: true, attributes: attribute !== "" }));
      set([...before, ...got.messages]);
      setNext(got.next);
      fail(null);
    } catch (e) {
      if (e instanceof Failed) fail(e);
    }
    setBusy(false);
  };
  useEffect(() => {
    set(null);
    void load("", []);
  }, [path, state, attribute !== "", epoch.value]);
  useCommands([
    cmd("Show these messages", "tenaq", "peek", v(queue), ...(state ? ["--state", state] : []), "--body"),
    cmd("Everything known about them, as JSON", "tenaq", "peek", v(queue), "--json", "--body"),
    cmd("Receive a message: this hides it and counts as a receive", "tenaq", "receive", v(queue)),
    cmd("Send a message", "tenaq", "send", v(queue), '{"id": 1}'),
  ]);
  const found = list?.filter((m) => (!text || has(m, text)) && fits(m, filter));
  return <Fragment>
    <div class="filters" role="search" aria-label="Messages">
      <Choice name="State" value={state} set={(v) => change({ state: v, at: undefined })}
        values={[["", "all"], ["visible", "visible"], ["in_flight", "in flight"], ["delayed", "delayed"], ["blocked", "blocked"], ["held", "held"]]} />
      <Field name="Contains" value={text} set={(v) => change({ text: v })} hint="body, id, key, reason" />
      <Field name="Attribute" value={attribute} set={(v) => change({ attribute: v })} hint="tenant=7" />
      {fifo && <Field name="Group" value={group} set={(v) => change({ group: v })} />}
      <Field name="Receives at least" value={receives} set={(v) => change({ receives: v })} hint="1" />
      {list && <span class="matched">{text || limited ? `${count(found!.length)} of ${plural(list.length, "message")} loaded` : `${plural(list.length, "message")} loaded`}</span>}
    </div>
    {error && error.status > 0 && <div class="problem" role="alert"><T text={error.message} /></div>}
    {attribute && !attribute.includes("=") && <div class="problem" role="alert">Type the attribute as <code>name=value</code>.</div>}
    {Object.keys(filter).length > 0 && <Search queue={queue} filter={filter} state={state} holds={holds} key={JSON.stringify(filter)} />}
    <div class={at ? "split open" : "split"}>
      <div class="master">
        {!list && !error && <div class="loading">Loading…</div>}
        {found?.length === 0 && <Empty>{text || limited ? "None of the loaded messages matches." : state ? "No message is in this state." : "The queue is empty."}</Empty>}
        {found && found.length > 0 && <Table name="Messages" rows={found} id={(m) => m.place} class="messages" of={(m) => (m.place === at ? "true" : undefined)} columns={[
          { name: "Message", cell: (m) => <a data-row class="mono" href={link(["q", queue, "messages"], { state, text, attribute, group, receives, at: m.place })} title={m.messageId}>{m.messageId.slice(0, 8)}</a> },
          { name: "Sent", cell: (m) => <Time at={m.sent} /> },
          { name: "Age", number: true, cell: (m) => age(m.ageMs) },
          { name: "State", cell: (m) => <State state={m.state} /> },
          { name: "Receives", number: true, cell: (m) => count(m.receiveCount) },
          { name: "Size", number: true, cell: (m) => bytes(m.size) },
          ...(fifo ? [{ name: "Group", cell: (m: Message) => <T text={m.groupId ?? ""} /> }] : []),
          { name: "Body", wide: true, cell: (m) => <span class="preview">{m.reason && <span class="reason"><T text={m.reason} /> · </span>}{plain((m.body ?? "").replace(/\s+/g, " "))}</span> },
        ]} />}
        {next && <More ask={() => void load(next, list ?? [])} busy={busy}>{list?.length === 0 ? "Look further" : "More messages"}</More>}
      </div>
      {at && <aside class="detail" aria-label="The message">
        <div class="bar"><button type="button" class="small" onClick={() => change({ at: undefined })}>Close</button></div>
        <Place queue={queue} place={at} key={at} />
      </aside>}
    </div>
  </Fragment>;
}

function has(m: Message, text: string): boolean {
  const t = text.toLowerCase();
  return [m.body, m.messageId, m.lineageId, m.key, m.reason, m.groupId, m.kind].some((s) => s?.toLowerCase().includes(t));
}

// fits is whether a message that is loaded has what a filter wants besides the text.
const fits = (m: Message, f: Filter) => (f.group === undefined || m.groupId === f.group) && m.receiveCount >= (f.receivesMin ?? 0)
  && Object.entries(f.attributes ?? {}).every(([name, value]) => m.attributes?.[name]?.value === value);

// Place shows the message at a place of the queue.
function Place({ queue, place }: { queue: string; place: string }) {
  const [m, set] = useState<Message | null | "gone">(null);
  const [all, more] = useState(false);
  const [error, fail] = useState("");
  useEffect(() => {
    get<MessageList>(`/queues/${encodeURIComponent(queue)}/messages`,
      { at: place, limit: 1, body: all ? 1 << 20 : 1 << 16, attributes: true, trail: true })
      .then((l) => set(l.messages[0] ?? "gone"), (e) => fail(String(e.message)));
  }, [place, all, epoch.value]);
  if (error) return <div class="problem" role="alert"><T text={error} /></div>;
  if (m === "gone") return <Empty>The message has left the queue: it was deleted, has expired or moved. Its history may be in <a href={link(["q", queue, "history"])}>History</a>.</Empty>;
  if (!m) return <div class="loading">Loading…</div>;
  return <MessageView m={{ ...m, queue }} showAll={() => more(true)} />;
}

// Search looks through the whole queue, some thousand messages at a time, and offers what may be done
// with what it found. It finds messages in all states, so it offers nothing while the list shows one. [CONSOLE-18]
function Search({ queue, filter, state, holds }: { queue: string; filter: Filter; state: string; holds: number }) {
  const { got, busy, error, start, stop } = useWalk<TaskCount>(async (before, signal) => {
    const more = await countOf({ queue, filter, ...(before?.next ? { after: before.next } : {}) }, signal);
    return [{ ...more, count: more.count + (before?.count ?? 0), skipped: more.skipped + (before?.skipped ?? 0), looked: more.looked + (before?.looked ?? 0),
      samples: [...(before?.samples ?? []), ...more.samples].slice(0, 10) }, more.complete];
  });
  const n = got ? got.count + got.skipped : 0, words = filter.text !== undefined, only = words && Object.keys(filter).length === 1;
  const scanned = got && `Scanned ${got.complete || holds <= got.looked ? plural(got.looked, "message") : `${count(got.looked)} of about ${plural(holds, "message")}`}.`;
  const found = got && `${got.complete ? "" : "At least "}${plural(n, "message")} of the queue ${only ? `${n === 1 ? "has" : "have"} this text in the body` : `${n === 1 ? "matches" : "match"}${words ? ", with the text in the body" : ""}`}${got.skipped ? `, ${count(got.skipped)} of them hidden now` : ""}${state ? ", whatever their state: show all states to act on them" : ""}.`;
  useEffect(() => {
    if (found && !busy) say(`${scanned} ${found}`);
  }, [busy]);
  return <div class="search">
    {error && <div class="problem" role="alert"><T text={error} /></div>}
    {got && <span>{scanned} {found} </span>}
    {got?.samples.map((m) => <Fragment key={m.messageId}><MessageLink id={m.messageId} /> </Fragment>)}
    {(busy || !got?.complete) && <button type="button" class="small" onClick={() => void (busy ? stop() : start())}>{busy ? "Stop" : got ? "Search further" : "Search the whole queue"}</button>}
    {n > 0 && !busy && !state && <Triage queue={queue} filter={filter} what={what(filter)} those="these" />}
  </div>;
}

// what names the messages that a filter finds.
const what = (f: Filter) => [...(f.text === undefined ? [] : [`"${f.text}"`]), ...(f.group === undefined ? [] : [`group ${f.group}`]),
  ...(f.receivesMin === undefined ? [] : [`at least ${plural(f.receivesMin, "receive")}`]), ...Object.entries(f.attributes ?? {}).map(([name, value]) => `${name}=${value}`)].join(", ");
