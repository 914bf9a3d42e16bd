// The dialogs in which something is changed. They are a script of their own.

import { Fragment, h, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { AlarmList, Attribute, Filter, Kind, Message, QueueDetail, Redriver, RedriverPlan, ShownAlarm, Task, TaskCount } from "./api.gen";
import { countOf, get } from "./api";
import { attempt, carryOut, close, endSilence, silenceAgain, tell, type Change, type Said } from "./act";
import { CommandList, inRecords, same, v, type Command, type Same, type Word } from "./commands";
import { age, bytes, count, plain, plural } from "./format";
import { indent } from "./json";
import { T } from "./parts";
import { epoch, go, link } from "./state";

// Act is a dialog with one action, and with the command that does the same, after those that must run
// first; null while there is none to carry out. What the action returns is said when the dialog has
// closed. The focus is on the body of a message, or on the first field. A dialog without fields says
// whether its action is harmless: then the focus is on that, and otherwise on Cancel. Its text has the
// id act-about, so that it is read before the button.
export function Act({ title, label, danger, harmless, ready = true, prior = [], same, act, children }: {
  title: string; label: string; danger?: boolean; harmless?: boolean; ready?: boolean; prior?: Command[]; same: Same | null;
  act: Change<Said | void>; children?: ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null), shown = useRef(true);
  const [error, fail] = useState(""), [busy, setBusy] = useState(false);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    dialog.current?.showModal();
    const first = (selector: string) => dialog.current?.querySelector<HTMLElement>(selector);
    (first("textarea") ?? first(".field input") ?? first(harmless ? "button[type=submit]" : "footer button"))?.focus();
    return () => {
      shown.current = false;
      if (before?.isConnected) before.focus();
    };
  }, []);
  const submit = async (e: Event) => {
    e.preventDefault();
    if (busy || !ready || !same) return;
    setBusy(true);
    fail("");
    try {
      const done = await carryOut(act);
      close();
      epoch.value++;
      if (done) tell(done);
    } catch (failed) {
      fail((failed as Error).message);
    }
    setBusy(false);
  };
  return <dialog ref={dialog} class="panel act" aria-labelledby="act-title" aria-describedby={harmless === undefined ? undefined : "act-about"} onClose={() => shown.current && close()}>
    <form onSubmit={submit}>
      <header><h2 id="act-title"><T text={title} /></h2><button type="button" class="small" onClick={close}>Close</button></header>
      {children}
      {error && <p class="problem" role="alert"><T text={error} /></p>}
      {same && <details class="same"><summary>&gt;_ The same in a terminal</summary><CommandList list={[...prior, same]} /></details>}
      <footer><button type="button" onClick={close}>Cancel</button>
        <button type="submit" class={danger ? "danger" : "primary"} disabled={busy || !ready || !same}>{busy ? "Working…" : label}</button></footer>
    </form>
  </dialog>;
}

// Input is a field of a form.
export function Input({ name, value, set, hint, type = "text" as "text" | "number", required, wide, list }: {
  name: string; value: string; set(v: string): void; hint?: string; type?: "text" | "number"; required?: boolean; wide?: boolean; list?: string[];
}) {
  const id = "list-" + name.replace(/\W/g, "-");
  return <label class={"field" + (wide ? " wide" : "")}><span>{name}</span>
    <input type={type} value={value} placeholder={hint} required={required} autocomplete="off" spellcheck={false} min={type === "number" ? 0 : undefined}
      list={list ? id : undefined} onInput={(e) => set(e.currentTarget.value)} />
    {list && <datalist id={id}>{list.map((v) => <option key={v} value={v} />)}</datalist>}</label>;
}

// Typed asks a person to type what will be destroyed.
export function Typed({ want, of, value, set }: { want: string; of: string; value: string; set(v: string): void }) {
  return <label class="field typed"><span>To confirm, type {of}: <b><T text={want} /></b></span>
    <input value={value} autocomplete="off" spellcheck={false} onInput={(e) => set(e.currentTarget.value)} /></label>;
}

const size = (text: string) => new TextEncoder().encode(text).length;
const isJSON = (text: string) => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

// Body edits a body. An element of HTML changes line ends, so a body that is as it was is not read
// from there.
export function Body({ value, set, was = "" }: { value: string; set(v: string): void; was?: string }) {
  const typed = (text: string) => set(text === was.replace(/\r\n?/g, "\n") ? was : text);
  const n = size(value);
  return <label class="field"><span>Body · {bytes(n)}{value.trim() && (isJSON(value) ? " · valid JSON" : " · not JSON")}{n > 1 << 20 && " · too large: at most 1 MiB"}</span>
    <textarea value={value} spellcheck={false} required onInput={(e) => typed(e.currentTarget.value)} /></label>;
}

interface Row {
  name: string;
  type: string;
  value: string;
  base64?: string; // of bytes, which are kept as they are
}

const rowsOf = (of?: Record<string, Attribute>): Row[] => Object.entries(of ?? {}).map(([name, a]) => ({ name, type: a.type, value: a.value ?? "", base64: a.base64 }));

// attribute is a row as commands take it.
const attribute = (r: Row) => v(`${r.name}${r.type === "String" ? "" : ":" + r.type}=${r.base64 ?? r.value}`);

function Attributes({ rows, set }: { rows: Row[]; set(change: (rows: Row[]) => Row[]): void }) {
  const put = (i: number, to: Partial<Row>) => set((rows) => rows.map((r, n) => (n === i ? { ...r, ...to } : r)));
  return <div class="field"><span>Attributes</span>
    {rows.map((r, i) => <div class="attr" key={i}>
      <input aria-label={`Name of attribute ${i + 1}`} value={r.name} placeholder="name" onInput={(e) => put(i, { name: e.currentTarget.value })} />
      <select aria-label={`Type of attribute ${i + 1}`} value={r.type} disabled={r.base64 !== undefined} onChange={(e) => put(i, { type: e.currentTarget.value })}>
        {[...new Set(["String", "Number", r.type])].map((t) => <option key={t}>{plain(t)}</option>)}</select>
      <input aria-label={`Value of attribute ${i + 1}`} value={r.base64 === undefined ? r.value : "(bytes)"} disabled={r.base64 !== undefined} placeholder="value" onInput={(e) => put(i, { value: e.currentTarget.value })} />
      <button type="button" class="small" aria-label={`Remove attribute ${i + 1}`} onClick={() => set((rows) => rows.filter((_, n) => n !== i))}>×</button></div>)}
    <div><button type="button" class="small" onClick={() => set((rows) => [...rows, { name: "", type: "String", value: "" }])}>Add an attribute</button></div></div>;
}

// Send sends a message, perhaps like another one.
export function Send({ queue, fifo, like }: { queue: string; fifo: boolean; like?: Message }) {
  const was = like ? like.body ?? "" : "";
  const [body, setBody] = useState(like ? was : '{"id": 1}');
  const [rows, setRows] = useState(rowsOf(like?.attributes));
  const [group, setGroup] = useState(like?.groupId ?? ""), [dedup, setDedup] = useState(""), [delay, setDelay] = useState("");
  const send: Change<Said> = async ({ act }) => {
    const MessageAttributes = Object.fromEntries(rows.map((r) => [r.name, { DataType: r.type, ...(r.base64 === undefined ? { StringValue: r.value } : { BinaryValue: r.base64 }) }]));
    const out = await act<{ MessageId: string }>("SendMessage", { QueueUrl: queue, MessageBody: body, ...(rows.length ? { MessageAttributes } : {}),
      ...(group ? { MessageGroupId: group } : {}), ...(dedup ? { MessageDeduplicationId: dedup } : {}), ...(delay ? { DelaySeconds: Number(delay) } : {}) });
    return { text: `Sent to ${queue}.`, link: [link(["m", out.MessageId]), "Show the message"] };
  };
  const words: Word[] = ["tenaq", "send", v(queue), v(body), ...rows.flatMap((r): Word[] => ["--attribute", attribute(r)]),
    ...(group ? ["--group", v(group)] : []), ...(dedup ? ["--dedup-id", v(dedup)] : []), ...(delay ? ["--delay", Number(delay) + "s"] : [])];
  return <Act title={`Send a message to ${queue}`} label="Send" ready={body !== "" && (!fifo || group !== "")} act={send} same={same("send", "Send this message", ...words)}>
    {like && <p class="dim">A copy of <span class="mono">{like.messageId.slice(0, 8)}</span>, as a new message. The original stays where it is.</p>}
    <Body value={body} set={setBody} was={was} />
    <Attributes rows={rows} set={setRows} />
    <div class="grid">{fifo && <Input name="Message group" value={group} set={setGroup} required />}
      {fifo && <Input name="Deduplication id" value={dedup} set={setDedup} hint="from the content" />}
      {!fifo && <Input name="Delay in seconds" type="number" value={delay} set={setDelay} hint="the queue's default" />}</div>
  </Act>;
}

const missing = (queue: string): Promise<boolean> => get("/queues/" + encodeURIComponent(queue)).then(() => false, (e) => {
  if (e.status === 404) return true;
  throw e;
});

// Create creates a queue, and perhaps the one for its dead letters.
export function Create() {
  const [name, setName] = useState(""), [fifo, setFifo] = useState(false), [dead, setDead] = useState(true), [max, setMax] = useState("5");
  const end = fifo ? ".fifo" : "", full = name && name.replace(/\.fifo$/, "") + end, letters = name.replace(/\.fifo$/, "") + "-dlq" + end;
  const kind = fifo ? { FifoQueue: "true" } : {};
  const create: Change<Said> = async ({ act }) => {
    let redrive = {};
    if (dead) {
      if (await missing(letters)) {
        if (!await missing(full)) throw new Error(`The queue ${full} exists, but ${letters} does not: create ${letters} first, then set the RedrivePolicy of ${full}.`);
        await act("CreateQueue", { QueueName: letters, Attributes: { ...kind, MessageRetentionPeriod: "1209600" } });
      }
      const { arn } = await get<QueueDetail>("/queues/" + encodeURIComponent(letters));
      redrive = { RedrivePolicy: JSON.stringify({ deadLetterTargetArn: arn, maxReceiveCount: Number(max) }) };
    }
    await act("CreateQueue", { QueueName: full, Attributes: { ...kind, ...redrive } });
    go(link(["q", full]));
    return { text: `Created ${full}.` };
  };
  return <Act title="Create a queue" label="Create" ready={name !== ""} act={create} same={same("create", "Create the queue", "tenaq", "queue", "create", v(full || "orders"),
    ...(dead ? ["--dead-letter", v(letters), "--max-receives", String(Number(max))] : []))}>
    <Input name="Name" value={name} set={setName} required wide hint="orders" />
    <label class="check"><input type="checkbox" checked={fifo} onChange={(e) => setFifo(e.currentTarget.checked)} /> FIFO: messages of a group arrive in order</label>
    <label class="check"><input type="checkbox" checked={dead} onChange={(e) => setDead(e.currentTarget.checked)} /><span>Move messages that keep failing to <b><T text={name ? letters : "a dead-letter queue"} /></b></span></label>
    {dead && <div class="grid"><Input name="After this many receives" type="number" value={max} set={setMax} required /></div>}
  </Act>;
}

// Destroy purges or deletes a queue.
export function Destroy({ d, purge }: { d: QueueDetail; purge: boolean }) {
  const [text, type] = useState("");
  const n = d.visible + d.inFlight + d.delayed;
  const destroy: Change<Said> = async ({ act }) => {
    await act(purge ? "PurgeQueue" : "DeleteQueue", { QueueUrl: d.name });
    if (!purge) go("#/");
    return { text: purge ? `Purged ${d.name}.` : `Deleted ${d.name}.` };
  };
  return <Act title={purge ? `Purge ${d.name}` : `Delete ${d.name}`} label={purge ? "Delete all messages" : "Delete the queue"} danger ready={text === d.name} act={destroy}
    same={purge ? same("purge", "Purge the queue", "tenaq", "queue", "purge", v(d.name), "--yes") : same("delete-queue", "Delete the queue", "tenaq", "queue", "delete", v(d.name), "--yes")}>
    <p>{purge ? "This deletes every message of the queue, also those in flight and delayed." : "This deletes the queue with its messages, settings and tags. Its name stays reserved for 60 seconds."} It cannot be undone.</p>
    <p class="counted"><b>{plural(n, "message")}</b> now: {count(d.visible)} visible, {count(d.inFlight)} in flight, {count(d.delayed)} delayed.</p>
    {!purge && d.deadLettersOf && <p class="problem">Dead letters come here from <T text={d.deadLettersOf.join(", ")} />.</p>}
    <Typed want={d.name} of="the name of the queue" value={text} set={type} />
  </Act>;
}

const settings: [name: string, says: string][] = [["VisibilityTimeout", "hide a received message for"], ["MessageRetentionPeriod", "keep a message for"],
  ["DelaySeconds", "hide a new message for"], ["ReceiveMessageWaitTimeSeconds", "let a receive wait for"]];

// Settings changes the settings that are times.
export function Settings({ d }: { d: QueueDetail }) {
  const [values, put] = useState<Record<string, string>>(Object.fromEntries(settings.map(([name]) => [name, d.attributes[name] ?? ""])));
  const changed = settings.filter(([name]) => values[name] !== d.attributes[name]).map(([name]) => name);
  const set: Change<Said> = async ({ act }) => {
    await act("SetQueueAttributes", { QueueUrl: d.name, Attributes: Object.fromEntries(changed.map((name) => [name, values[name]])) });
    return { text: `Changed ${changed.join(", ")}.`, undo: ({ act }) => act("SetQueueAttributes", { QueueUrl: d.name, Attributes: Object.fromEntries(changed.map((name) => [name, d.attributes[name]])) }), where: [["q", d.name, "settings"], "Show the settings"] };
  };
  return <Act title={`Settings of ${d.name}`} label="Change" ready={changed.length > 0} act={set}
    same={same("settings", "Change the settings", "tenaq", "queue", "set", v(d.name), ...changed.flatMap((name): Word[] => ["--attribute", v(`${name}=${values[name]}`)]))}>
    {settings.map(([name, says]) => <Input key={name} name={`${name}: ${says}, in seconds`} type="number" required value={values[name] ?? ""} set={(to) => put({ ...values, [name]: to })} />)}
  </Act>;
}

// Tag sets a tag.
export function Tag({ queue }: { queue: string }) {
  const [key, setKey] = useState(""), [value, setValue] = useState("");
  const tag: Change<Said> = async ({ act }) => {
    const { tags } = await get<QueueDetail>("/queues/" + encodeURIComponent(queue)); // the page may be older
    await act("TagQueue", { QueueUrl: queue, Tags: { [key]: value } });
    const before = Object.hasOwn(tags, key) ? tags[key] : undefined;
    return { text: `Set the tag ${key}.`, where: [["q", queue, "settings"], "Show the tags"], undo: ({ act }) => before === undefined
      ? act("UntagQueue", { QueueUrl: queue, TagKeys: [key] }) : act("TagQueue", { QueueUrl: queue, Tags: { [key]: before } }) };
  };
  return <Act title={`Set a tag of ${queue}`} label="Set" ready={key !== ""} act={tag}
    same={{ ...same("tag", "Set the tag", "tenaq", "queue", "tag", v(queue), v(`${key || "team"}=${value}`)), ...(key.includes("=") ? { unlike: "The command does not take a key that contains an equals sign." } : {}) }}>
    <div class="grid"><Input name="Key" value={key} set={setKey} required list={["tenaq:history", "tenaq:max-in-flight", "tenaq:rate"]} /><Input name="Value" value={value} set={setValue} /></div>
  </Act>;
}

export type Verb = "redrive" | "move" | "park" | "delete";

const verbs: Record<Verb, { title: string; label: string; command(...words: Word[]): Same; says: string }> = {
  redrive: { title: "Send back", label: "Send back", command: (...words) => same("redrive", "Send back", "tenaq", "dead", "redrive", ...words), says: "Each message goes back to the queue it came from, as a new message of the same lineage, with no receives. A message that a worker has received cannot be taken back; cancelling stops the rest." },
  move: { title: "Move to another queue", label: "Move", command: (...words) => same("move", "Move to another queue", "tenaq", "dead", "redrive", ...words), says: "Each message goes to this queue, as a new message of the same lineage, with no receives. Cancelling stops the rest." },
  park: { title: "Park", label: "Park", command: (...words) => same("park", "Park", "tenaq", "dead", "park", ...words), says: "The messages keep their ids, source and receive count, and wait in the parking queue. They can be sent back from there." },
  delete: { title: "Delete", label: "Delete", command: (...words) => same("delete", "Delete", "tenaq", "dead", "delete", ...words), says: "The messages are deleted permanently." },
};

// Selected carries out a task on the messages that a filter finds: first it counts them. A task takes at
// most as many as were counted. Flags select the same in a command. [CONSOLE-16]
export function Selected({ queue, filter, flags: selected, what, verb, parking }: { queue: string; filter: Filter; flags: Word[]; what: string; verb: Verb; parking: string }) {
  const { title, label, says } = verbs[verb];
  const [to, setTo] = useState(verb === "park" ? parking : ""), [rate, setRate] = useState(verb === "redrive" ? "10" : ""), [note, setNote] = useState(""), [text, type] = useState("");
  const [got, set] = useState<TaskCount | null>(null), [error, fail] = useState("");
  const stop = useRef(false);
  const needs = verb === "move" || verb === "park";
  const dry = async (before: TaskCount | null) => {
    fail("");
    try {
      for (let i = 0, all = before; i < 40 && !stop.current; i++) {
        const more = await countOf({ queue, filter, ...(verb === "redrive" ? { back: true } : {}), ...(all?.next ? { after: all.next } : {}) });
        all = { ...more, count: more.count + (all?.count ?? 0), bytes: more.bytes + (all?.bytes ?? 0), skipped: more.skipped + (all?.skipped ?? 0), samples: [...(all?.samples ?? []), ...more.samples].slice(0, 3) };
        set(all);
        if (all.complete) break;
      }
    } catch (e) {
      fail((e as Error).message);
    }
  };
  useEffect(() => {
    void dry(null);
    return () => {
      stop.current = true;
    };
  }, []);
  const other = filter.id !== undefined && got?.samples.find((m) => m.messageId !== filter.id);
  const n = got?.count ?? 0, perSecond = Math.min(Number(rate) || 0, 10_000);
  const start: Change<void> = async (send) => {
    const t = await send.post<Task>("/tasks", { queue, do: verb === "redrive" ? "move" : verb, filter, limit: n, expected: n, ...(needs ? { to } : {}), ...(perSecond ? { rate: perSecond } : {}),
      ...(verb === "delete" ? { confirm: n } : {}), ...(note ? { note } : {}) });
    go(link(["tasks", t.id]));
  };
  const flags: Word[] = [...selected, ...(n ? ["--limit", String(n)] : []), ...(needs && to ? ["--to", v(to)] : []), ...(perSecond ? ["--rate", String(perSecond)] : []),
    ...(verb === "delete" ? ["--confirm", String(n)] : []), ...(note ? ["--note", v(note)] : []), "--yes"];
  return <Act title={`${title}: ${what}`} label={n ? `${label} ${plural(n, "message")}` : label} danger={verb === "delete"} act={start}
    ready={n > 0 && !other && (!needs || to !== "") && (verb !== "delete" || text === String(n))}
    same={verbs[verb].command(v(queue), ...flags)}>
    <p>{says}</p>
    {error && <p class="problem" role="alert"><T text={error} /></p>}
    {!got ? !error && <p class="loading">Counting…</p> : <Fragment>
      <p class="counted" role="status"><b>{got.complete ? "" : "At least "}{plural(n, "message")}</b> now, {bytes(got.bytes)}.{got.skipped > 0 && ` ${count(got.skipped)} cannot be taken now and stay: in flight, delayed, blocked or without a source.`}
        {!got.complete && <Fragment> <button type="button" class="small" onClick={() => void dry(got)}>Count further</button></Fragment>}</p>
      {got.samples.length > 0 && <ul class="samples" aria-label="Samples">{got.samples.map((m) => <li key={m.messageId}><span class="mono">{m.messageId.slice(0, 8)}</span><span class="preview">{plain((m.body ?? "").replace(/\s+/g, " ").slice(0, 200))}</span></li>)}</ul>}
    </Fragment>}
    <div class="grid">{needs && <Input name={verb === "park" ? "Parking queue" : "Queue"} value={to} set={setTo} required />}
      <Input name="Messages per second" type="number" value={rate} set={setRate} hint="no limit" /><Input name="Note" value={note} set={setNote} hint="why, for the action log" /></div>
    {other && <p class="problem">This is another message now: {other.messageId.slice(0, 8)} has taken its place.</p>}
    {perSecond > 0 && n > perSecond && <p class="dim">This takes about {age((1000 * n) / perSecond)}.</p>}
    {needs && to && <Missing queue={to} />}
    {verb === "delete" && n > 0 && <Typed want={String(n)} of="the number of messages" value={text} set={type} />}
  </Act>;
}

// Note writes about a kind of failure, for the next person on call. [NACK-23]
export function Note({ queue, kind }: { queue: string; kind: Kind }) {
  const was = kind.note?.text ?? "", path = `/queues/${encodeURIComponent(queue)}/reasons/${kind.kind}/note`;
  const [text, set] = useState(was);
  const write: Change<Said> = async ({ post }) => {
    await post(path, { text });
    return { text: text ? "Saved the note." : "Removed the note.", where: [["q", queue, "dead"], "Show the notes"], undo: ({ post }) => post(path, { text: was }) };
  };
  return <Act title={`Note on: ${kind.reason || "no reason known"}`} label={was && !text ? "Remove" : "Save"} ready={text !== was} act={write}
    same={same("note", text ? "Write the note" : "Remove the note", "tenaq", "dead", "note", v(queue), v(kind.kind), text ? v(text) : "--remove")}>
    <Input name="Note for the next person" value={text} set={set} wide hint="ask the bank first" />
  </Act>;
}

// AckNote acknowledges an alarm with a note. The way back restores the earlier note, or ends the
// acknowledgement if there was none. No note can be taken from one that goes on. [ALARM-47]
export function AckNote({ a }: { a: ShownAlarm }) {
  const was = a.acknowledgement?.note ?? "", path = "/alarms/acknowledge", alarm = a.name;
  const [note, set] = useState(was);
  const undo: Change | undefined = a.acknowledged && !was ? undefined : ({ post }) => post(path, was ? { alarm, note: was } : { alarm, end: true });
  const write: Change<Said> = async ({ post }) => {
    await post(path, { alarm, note });
    return { text: `Acknowledged ${alarm} with the note.`, ...(undo ? { undo } : {}), where: [["alarms"], "Show the alarms"] };
  };
  return <Act title={`Acknowledge ${alarm}`} label={a.acknowledged ? "Save" : "Acknowledge"} ready={note !== "" && note !== was} act={write}
    same={same("acknowledge-note", "Acknowledge the alarm", "tenaq", "alarms", "ack", v(alarm), "--note", v(note))}>
    <Input name="Note" value={note} set={set} wide required hint="who looks at it, and what is known" />
    <p class="dim">The note is shown until the alarm changes its state, or until the acknowledgement ends.</p>
  </Act>;
}

// Missing says that a queue does not exist, and creates it.
function Missing({ queue }: { queue: string }) {
  const [is, set] = useState(false);
  useEffect(() => {
    const late = setTimeout(() => get("/queues/" + encodeURIComponent(queue)).then(() => set(false), (e) => set(e.status === 404)), 250);
    return () => clearTimeout(late);
  }, [queue]);
  if (!is) return null;
  const it = same("create-missing", "Create it", "tenaq", "queue", "create", v(queue), "--retention", "14d");
  const create = async () => await attempt(it, ({ act }) => act("CreateQueue", { QueueName: queue, Attributes: { MessageRetentionPeriod: "1209600", ...(queue.endsWith(".fifo") ? { FifoQueue: "true" } : {}) } }), { text: `Created ${queue}.` }) && set(false);
  return <div class="dim">There is no queue <b><T text={queue} /></b>. <button type="button" class="small" onClick={() => void create()}>Create it</button><CommandList list={[it]} /></div>;
}

// Edit sends a corrected message in the place of one. [TASK-17]
export function Edit({ queue, id }: { queue: string; id: string }) {
  const [m, set] = useState<Message | null>(null), [error, fail] = useState("");
  useEffect(() => {
    get<Message>("/messages/" + encodeURIComponent(id), { body: 1 << 20, attributes: true }).then(set, (e) => fail(e.message));
  }, []);
  if (!m) return <Act title="Edit and send" label="Send" same={null} act={async () => {}}>{error ? <p class="problem" role="alert"><T text={error} /></p> : <p class="loading">Loading…</p>}</Act>;
  return <Editor m={m} queue={queue} />;
}

const linesOf = (text: string) => (indent(text)?.map((p) => p.text).join("") ?? text).split("\n");

// Changed shows the lines that an edit changes, of JSON as if it were indented.
function Changed({ was, body }: { was: string; body: string }) {
  const a = linesOf(was), b = linesOf(body), most = Math.min(a.length, b.length);
  let from = 0, end = 0;
  while (from < most && a[from] === b[from]) from++;
  while (end < most - from && a.at(-1 - end) === b.at(-1 - end)) end++;
  const part = (of: string[], mark: string) => {
    const all = of.slice(from, of.length - end), shown = all.slice(0, 40).map((l) => mark + plain(l.slice(0, 500)) + (l.length > 500 ? " …" : ""));
    return [...shown, ...(all.length > 40 ? [`… and ${plural(all.length - 40, "line")} more`] : [])].join("\n");
  };
  return <div class="field"><span>What changes in the body</span>{from + end === a.length && a.length === b.length ? <span class="dim">only white space</span>
    : <pre class="diff"><del>{part(a, "− ")}</del><ins>{part(b, "+ ")}</ins></pre>}</div>;
}

function Editor({ m, queue }: { m: Message; queue: string }) {
  const was = m.body ?? "";
  const [body, setBody] = useState(was), [rows, setRows] = useState(rowsOf(m.attributes)), [to, setTo] = useState("");
  const before = rowsOf(m.attributes);
  const set = rows.filter((r) => r.name && !before.some((b) => b.name === r.name && b.type === r.type && b.value === r.value));
  const removed = before.filter((b) => !rows.some((r) => r.name === b.name));
  const changed = body !== was || set.length > 0 || removed.length > 0;
  const send: Change<Said> = async ({ post }) => {
    const attributes = Object.fromEntries([...set.map((r) => [r.name, { type: r.type, ...(r.base64 === undefined ? { value: r.value } : { base64: r.base64 }) }]), ...removed.map((r) => [r.name, null])]);
    const out = await post<{ messageId: string }>("/replace", { queue, place: m.place, ...(to ? { to } : {}), ...(body !== was ? { body } : {}), ...(set.length + removed.length ? { attributes } : {}) });
    return { text: "Sent the corrected message; the original is gone.", link: [link(["m", out.messageId]), "Show the message"] };
  };
  const words: Word[] = ["tenaq", "dead", "edit", v(queue), m.messageId, ...(body !== was ? ["--body", v(body)] : []), ...set.flatMap((r): Word[] => ["--attribute", attribute(r)]),
    ...removed.flatMap((r): Word[] => ["--without", v(r.name)]), ...(to ? ["--to", v(to)] : []), "--yes"];
  return <Act title={`Edit and send ${m.messageId.slice(0, 8)}`} label="Replace and send" ready={!m.bodyCut && (changed || to !== "")} act={send} same={same("edit", "Send the corrected message in its place", ...words)}>
    <p>The server removes the original and sends the new message in one step. The new message has the same lineage, and goes {to ? <Fragment>to <b><T text={to} /></b></Fragment> : "back to where the original came from"}.</p>
    {m.bodyCut && <p class="problem">The body is too large to edit here: use the command with --body-file.</p>}
    <Body value={body} set={setBody} was={was} />{body !== was && <Changed was={was} body={body} />}<Attributes rows={rows} set={setRows} />
    <div class="grid"><Input name="Queue" value={to} set={setTo} hint="where it came from" /></div>
    {!changed && <p class="dim">You have not changed anything yet.</p>}
  </Act>;
}

// Quiet silences alarms.
export function Quiet({ match }: { match: string }) {
  const [of, setOf] = useState(match), [long, setLong] = useState("2h"), [why, setWhy] = useState("");
  const silence: Change<Said> = async ({ post }) => {
    const before = (await get<AlarmList>("/alarms", { state: "ALARM" })).silences.find((s) => s.match === of);
    const out = await post<{ about: number }>("/alarms/silence", { match: of, for: long, ...(why ? { reason: why } : {}) });
    return { text: `Silenced ${of} for ${long}: ${plural(out.about, "alarm")} now.`, undo: before ? silenceAgain(before) : endSilence(of), where: [["alarms"], "Show the silences"] };
  };
  return <Act title="Silence alarms" label="Silence" ready={of !== "" && long !== ""} act={silence}
    same={same("silence", "Silence them", "tenaq", "alarms", "silence", v(of), "--for", v(long), ...(why ? ["--reason", v(why)] : []))}>
    <p>A silenced alarm still changes its state, but runs no actions.</p>
    <Input name="Alarms" value={of} set={setOf} required wide hint="orders/*" />
    <div class="grid"><Input name="For" value={long} set={setLong} required list={["30m", "2h", "8h", "24h"]} /><Input name="Reason" value={why} set={setWhy} /></div>
  </Act>;
}

// Plan asks what the next step of a redriver would do, which counts as a receive. [V1-20]
export function Plan({ r, same, done }: { r: Redriver; same: Same; done(p: RedriverPlan): void }) {
  const plan: Change<Said> = async ({ post }) => {
    const p = await post<RedriverPlan>(`/redrivers/${encodeURIComponent(r.queue)}/plan`, {});
    done(p);
    return { text: p.redrive + p.park + p.hold === 0 ? `The next step of ${r.queue} would do nothing.` : `${r.queue}: the next step would send ${plural(p.redrive, "message")} back, park ${count(p.park)} and hold ${count(p.hold)}.` };
  };
  return <Act title={`Plan the next step of ${r.queue}`} label="Plan" harmless act={plan} same={same}>
    <p id="act-about">Shows what the next step would do with each dead letter, and why. Nothing is sent, deleted or recorded. Until it ends, consumers cannot receive the dead letters that it looks at.</p>
  </Act>;
}

// Step takes a step of a redriver at once. [V1-17]
export function Step({ r }: { r: Redriver }) {
  const step: Change<Said> = async ({ post }) => {
    const s = await post<{ redriven: number; parked: number; held: number; breaker: string }>(`/redrivers/${encodeURIComponent(r.queue)}/step`, {});
    return { text: s.redriven + s.parked + s.held === 0 ? `The step of ${r.queue} found nothing to do.` : `${r.queue}: sent ${plural(s.redriven, "message")} back, parked ${count(s.parked)}, held ${count(s.held)}.` };
  };
  const room = r.state ? Math.max(0, r.state.rate - r.state.onTheWay) : 0;
  return <Act title={`Take a step of ${r.queue}`} label="Take a step" harmless={false} act={step}
    same={same("step", "Take a step", "tenaq", "redrive", "run", v(r.queue), "--parking", v(r.parking), ...(r.target ? ["--target", v(r.target)] : []), "--once", ...r.flags, ...inRecords(r))}>
    <p id="act-about">The redriver takes its next step now: it looks at dead letters, sends {r.state?.breaker.state === "OPEN" ? "none back while the breaker is open" : `at most ${count(room)} back`}, and parks those that would only fail again. Messages that workers have received cannot be taken back.</p>
  </Act>;
}

// Rate changes how fast a task is.
export function Rate({ t }: { t: Task }) {
  const [rate, set] = useState(String(t.rate ?? ""));
  const change: Change<Said> = async ({ post }) => {
    await post(`/tasks/${encodeURIComponent(t.id)}/rate`, { rate: Number(rate) || 0 });
    return { text: "Changed the rate.", undo: ({ post }) => post(`/tasks/${encodeURIComponent(t.id)}/rate`, { rate: t.rate ?? 0 }), where: [["tasks", t.id], "Show the task"] };
  };
  return <Act title={`Rate of ${t.id}`} label="Change" act={change} same={same("task-rate", "Change its rate", "tenaq", "task", "rate", v(t.id), String(Number(rate) || 0))}>
    <Input name="Messages per second" type="number" value={rate} set={set} hint="no limit" />
  </Act>;
}
