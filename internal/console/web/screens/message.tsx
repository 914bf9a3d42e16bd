// One message: what it contains, what happened to it, and why it failed.

import { Fragment, h } from "preact";
import { useState } from "preact/hooks";
import type { Attempt, Attribute, Message, OutcomeList, Queue } from "../api.gen";
import { ask } from "../act";
import { Failed, get, useGet } from "../api";
import { cmd, CommandList, useCommands, v, type Command } from "../commands";
import { age, bytes, count, plain, plural } from "../format";
import { hex, indent } from "../json";
import { Badge, Copy, Empty, Fact, QueueLink, say, State, T, Table, Time, useTitle, Wait } from "../parts";
import { can, link, route } from "../state";
import { Triage } from "../triage";

// MessagePage finds a message by its id or that of its lineage, in whichever queue it is.
export function MessagePage() {
  const id = route.value.path[1] ?? "";
  const [all, more] = useState(false);
  useTitle("Message " + id.slice(0, 8));
  const asked = useGet<Message>("/messages/" + encodeURIComponent(id), { body: all ? 1 << 20 : 1 << 16, attributes: true });
  const gone = asked.error?.status === 404;
  useCommands([cmd("Find the message and show everything known about it", "tenaq", "show", v(id), "--body")]);
  return <Fragment>
    <h1>Message</h1>
    {gone ? <Gone id={id} text={asked.error!.message} /> : <Wait of={asked}>{(m) => <MessageView m={m} showAll={() => more(true)} />}</Wait>}
  </Fragment>;
}

// Gone offers a search of the histories that queues keep.
function Gone({ id, text }: { id: string; text: string }) {
  const [queue, look] = useState("");
  const queues = useGet<{ queues: Queue[] }>("/queues", { limit: 50 });
  const found = useGet<OutcomeList>(queue ? `/queues/${encodeURIComponent(queue)}/history` : null, { lineage: id });
  return <Empty>
    <h2>No queue has this message now</h2>
    <p><T text={text} /></p>
    <p>If its queue keeps a history, the outcome is recorded there. Search the history of:</p>
    <p>{queues.data?.queues.map((q) => <Fragment key={q.name}><button type="button" class="small" onClick={() => look(q.name)}><T text={q.name} /></button> </Fragment>)}</p>
    {queue && <Wait of={found}>{(l) => l.outcomes.length
      ? <p>{plural(l.outcomes.length, "outcome")}: <a href={link(["q", queue, "history"], { lineage: id })}>show</a></p>
      : <p>The history of <T text={queue} /> has nothing with this lineage id.</p>}</Wait>}
    <CommandList list={[cmd("Search a history", "tenaq", "history", v(queue || "orders"), "--id", v(id))]} />
  </Empty>;
}

type Shown = Message & { queue?: string };

export function commandsOf(m: Shown): Command[] {
  return [
    cmd("Show this message", "tenaq", "show", v(m.messageId), "--body"),
    ...(m.queue ? [
      cmd("Send it back to where it came from", "tenaq", "dead", "redrive", v(m.queue), "--id", m.messageId),
      cmd("Send a corrected message in its place", "tenaq", "dead", "edit", v(m.queue), m.messageId, "--body-file", "fixed.json"),
      cmd("Delete it", "tenaq", "dead", "delete", v(m.queue), "--id", m.messageId),
    ] : []),
    ...(m.key ? [cmd("Show the claim of its work", "tenaq", "claims", "show", v(m.key))] : []),
  ];
}

// Elsewhere says where the body is, if what the message has is a pointer that package offload, or a
// library with the same format, has sent in its place.
function Elsewhere({ m }: { m: Shown }) {
  const size = m.attributes?.ExtendedPayloadSize ?? m.attributes?.SQSLargePayloadSize;
  if (!size || m.bodyCut) return null;
  try {
    const pointer = JSON.parse(m.body ?? ""), { s3BucketName: bucket, s3Key: key } = Array.isArray(pointer) ? pointer[1] : pointer;
    if (typeof bucket !== "string" || typeof key !== "string") return null;
    return <p class="dim">This is a pointer. The body of {bytes(Number(size.value) || 0)} is stored outside the queue, as <code><T text={key} /></code> in <code><T text={bucket} /></code>.</p>;
  } catch {
    return null; // the attribute means something else
  }
}

// wholeBody reads a body of which the page has only the beginning. By its id, which is also that of its
// lineage, the server may find the message that has replaced it.
async function wholeBody(id: string): Promise<string> {
  const m = await get<Message>("/messages/" + id, { body: 1 << 20 });
  if (m.messageId !== id) throw new Failed(404, "", "The message is gone.");
  return m.body ?? "";
}

export function MessageView({ m, showAll }: { m: Shown; showAll(): void }) {
  return <article class="message">
    <header><State state={m.state} /><span class="mono id">{m.messageId}</span>
      <Copy text={m.messageId} what="the message id" />
      <a class="small" href={link(["m", m.messageId])}>Link to this message</a><a class="small" href={link(["trace", m.key ?? m.lineageId])}>Life of this work</a></header>
    {m.queue && <Triage queue={m.queue} filter={{ id: m.messageId }} what={`message ${m.messageId.slice(0, 8)}`} those="it" sample={m.messageId}>
      {can("sqs:SendMessage") && !m.bodyCut && <button type="button" class="small" onClick={() => void ask((c) => <c.Send queue={m.queue!} fifo={m.groupId !== undefined && m.queue!.endsWith(".fifo")} like={m} />)}>Send like this…</button>}
    </Triage>}
    <Body text={m.body ?? ""} cut={m.bodyCut ?? false} size={m.size} showAll={showAll} whole={() => wholeBody(m.messageId)} id={m.messageId} />
    <Elsewhere m={m} />
    {m.reason && <section><h3>Why it failed</h3>
      <p class="why"><T text={m.reason} /></p>
      {m.kind && m.queue && <p class="dim">Kind <code>{m.kind}</code>. <a href={link(["q", m.queue, "dead"], { kind: m.kind })}>Others that failed for this reason</a></p>}</section>}
    {m.story && m.story.length > 0 ? <Story story={m.story} /> : !m.reason && (m.receiveCount > 1 || m.deadLetterSource) && <p class="dim">No worker has said why it failed.</p>}
    <Attributes of={m.attributes} id={m.messageId} />
    <section><h3>Timeline</h3><Timeline m={m} /></section>
    <section><h3>Facts</h3><dl class="facts">
      {m.queue && <Fact name="Queue"><QueueLink name={m.queue} /></Fact>}
      <Fact name="Receives">{count(m.receiveCount)}</Fact>
      <Fact name="Size">{bytes(m.size)}</Fact>
      {m.groupId !== undefined && <Fact name="Group"><T text={m.groupId} /></Fact>}
      {m.deduplicationId !== undefined && <Fact name="Deduplication id"><T text={m.deduplicationId} /></Fact>}
      {m.sequenceNumber && <Fact name="Sequence number">{m.sequenceNumber}</Fact>}
      {m.key && <Fact name="Key of the work"><T text={m.key} /></Fact>}
      {m.attempts ? <Fact name="Attempts of its worker">{count(m.attempts)}</Fact> : null}
      {m.redrives ? <Fact name="Redrives">{count(m.redrives)}</Fact> : null}
      {m.holds && <Fact name="Holds">group <code><T text={m.holds.groupId} /></code> of <QueueLink name={m.holds.queue} />: none of its messages is delivered until this message is back or gone</Fact>}
      {m.deadLetterSource && <Fact name="Dead letter of"><QueueLink name={m.deadLetterSource.slice(m.deadLetterSource.lastIndexOf(":") + 1)} /></Fact>}
      <Fact name="Lineage id" title="The id of the first message of this work"><a class="mono" href={link(["m", m.lineageId])}>{m.lineageId}</a></Fact>
      <Fact name="Generation" title="Raised when a replay does completed work again">{m.generation}</Fact>
      <Fact name="Fence" title="Number of the latest delivery of the lineage">{m.fence}</Fact>
    </dl></section>
    <section><h3>Commands</h3><CommandList list={commandsOf(m)} /></section>
  </article>;
}

// Timeline is what is known of the past of a message, and when it is visible again.
function Timeline({ m }: { m: Shown }) {
  const all: [at: string | null | undefined, what: string][] = [
    [m.firstSent !== m.sent ? m.firstSent : null, "work first sent, as " + m.lineageId.slice(0, 8)], [m.sent, "entered this queue"],
    [m.firstReceive, "first received"], [m.receiveCount > 1 ? m.lastReceive : null, "last received, the " + ordinal(m.receiveCount) + " time"],
    [m.state === "visible" ? null : m.visibleAt, m.state === "blocked" || m.state === "held" ? "can be received when its group is free" : m.state === "delayed" ? "can be received" : "visible again, unless its consumer deletes it or changes the timeout first"],
  ];
  const known = all.filter(([at]) => at).sort(([a], [b]) => Date.parse(a!) - Date.parse(b!));
  return <Fragment>
    <ol class="timeline">{known.map(([at, what]) => <li key={what}><Time at={at} /> <span>{what}</span></li>)}</ol>
    <p class="dim small">{m.receiveCount === 0 ? "No consumer has received it." : "Receives between the first and the last are not recorded."} It is {age(m.ageMs)} old.</p>
  </Fragment>;
}

function ordinal(n: number): string {
  const end = n % 100 > 10 && n % 100 < 14 ? "th" : ["th", "st", "nd", "rd"][n % 10] ?? "th";
  return count(n) + end;
}

export function Story({ story }: { story: Attempt[] }) {
  return <section><h3>Latest attempts</h3><Table name="Latest attempts" rows={[...story].reverse()} id={(a) => a.receive + a.how + a.ended} columns={[
    { name: "Receive", number: true, cell: (a) => a.receive },
    { name: "Ended", cell: (a) => <Time at={a.ended} /> },
    { name: "Verdict", cell: (a) => <Badge kind={a.how === "poison" ? "bad" : a.how === "retry" ? "warn" : "idle"}>{a.how}</Badge> },
    { name: "Reason", wide: true, cell: (a) => <span class="why">{a.class && <b><T text={a.class} />: </b>}<T text={a.text ?? ""} /></span> },
  ]} /></section>;
}

// Save hands over a file with bytes, or with what it reads first.
function Save({ of, name, what }: { of: BlobPart | (() => Promise<BlobPart>); name: string; what: string }) {
  const [failed, fail] = useState(false);
  const save = async () => {
    try {
      const a = document.createElement("a");
      a.href = URL.createObjectURL(new Blob([typeof of === "function" ? await of() : of], { type: "application/octet-stream" }));
      a.download = name;
      a.click();
      setTimeout(() => URL.revokeObjectURL(a.href), 60_000);
      fail(false);
    } catch {
      fail(true);
      say("Not downloaded");
    }
  };
  return <button type="button" class="small" onClick={save} aria-label={`${failed ? "Not downloaded: " : "Download "}${what}`}>{failed ? "Not downloaded" : "Download"}</button>;
}

const bytesIn = (base64: string) => Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));

export function Attributes({ of, id }: { of?: Record<string, Attribute>; id: string }) {
  const all = Object.entries(of ?? {}).sort(([a], [b]) => (a < b ? -1 : 1));
  if (all.length === 0) return null;
  return <section><h3>Message attributes</h3><Table name="Message attributes" rows={all} id={([name]) => name} columns={[
    { name: "Name", cell: ([name]) => <T text={name} /> },
    { name: "Type", cell: ([, a]) => <T text={a.type} /> },
    { name: "Value", wide: true, cell: ([name, a]) => a.base64 !== undefined
      ? <Fragment><code class="value">{hexOf(bytesIn(a.base64))}</code> <Save of={bytesIn(a.base64)} name={`${id}-${name}`} what={`attribute ${plain(name)}`} /></Fragment> : <span class="value"><T text={a.value ?? ""} /></span> },
  ]} /></section>;
}

// hexOf shows bytes in hexadecimal, the first 256.
function hexOf(raw: Uint8Array): string {
  const shown = [...raw.slice(0, 256)].map((c) => c.toString(16).padStart(2, "0")).join(" ");
  return raw.length > 256 ? `${shown} … ${bytes(raw.length)}` : shown;
}

type View = "json" | "text" | "hex";

// Body shows a body as JSON if it is some, and else as text. Its bytes are never changed, and the whole
// of it is copied or downloaded, or the button says otherwise. [CONSOLE-6]
export function Body({ text, cut, size, showAll, whole, id }: { text: string; cut: boolean; size: number; showAll?(): void; whole?(): Promise<string>; id: string }) {
  const pieces = cut ? null : indent(text);
  const [chosen, choose] = useState<View | "">("");
  const view = chosen || (pieces ? "json" : "text");
  const views: [View, string][] = [...(pieces ? [["json", "JSON"] as [View, string]] : []), ["text", "Text"], ["hex", "Hex"]];
  return <section class="body"><div class="bar"><h3>Body</h3>
    <span class="choices" role="group" aria-label="How to show the body">{views.map(([v, label]) =>
      <button key={v} type="button" class="small" aria-pressed={view === v} onClick={() => choose(v)}>{label}</button>)}</span>
    {cut && !whole ? <Copy text={text} what="the beginning of the body" label="Copy the beginning" /> : <Fragment><Copy text={cut ? whole! : text} what="the body" /><Save of={cut ? whole! : text} name={`${id}.${pieces ? "json" : "txt"}`} what="the body" /></Fragment>}<span class="dim">{bytes(size)}</span></div>
    <pre tabIndex={0} aria-label="Body">{text === "" ? <span class="dim">(no body)</span>
      : view === "json" && pieces ? pieces.map((p, i) => <span key={i} class={"j-" + p.kind}>{plain(p.text)}</span>)
        : view === "hex" ? hex(text) : plain(text)}</pre>
    {cut && <p class="dim">Only the beginning is shown. {showAll && text.length < 1 << 19 && <button type="button" class="small" onClick={showAll}>Show up to 1 MiB</button>}</p>}
  </section>;
}
