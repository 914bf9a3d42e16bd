// Claims on work: who holds them, how they ended, and what awaits a person.

import { Fragment, h } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { ClaimList, ClaimStore, ClaimView, StoreList } from "../api.gen";
import { ask, type Change, type Said } from "../act";
import { get, useGet, useWalk } from "../api";
import { cmd, inLedger, same, useCommands, v, type Word } from "../commands";
import { age, count, plural } from "../format";
import { Badge, Choice, Empty, Fact, Field, MessageLink, More, Seen, T, Table, useTitle, Wait } from "../parts";
import { can, change, epoch, has, link, now, route } from "../state";
import { Life } from "./trace";

const every = 5000;

// A Place is where claims are: in a ledger of the records of the server, or of a store outside that
// the operator has named. [REC-18]
interface Place {
  ledger: string;
  store: string; // empty for the records of the server
  at?: ClaimStore; // of such a store, when it is known
}

const inPlace = ({ ledger, store }: Place) => ({ ledger: ledger === "claim/" ? "" : ledger, store });
const found = (p: Place): Word[] => inLedger(p.ledger, p.store ? p.at?.records ?? p.store : undefined);

export function Claims() {
  const [, key] = route.value.path, { query } = route.value, ledger = query.get("ledger") || "claim/", store = query.get("store") ?? "";
  const many = has("stores", "tenaq:ListClaims"), { data, error } = useGet<StoreList>(many ? "/stores" : null);
  useTitle(key ? "Claim on " + key.slice(0, 40) : "Claims");
  const p = { ledger, store, at: data?.stores.find((s) => s.name === store) }, id = [ledger, store, key].join(" ");
  // What a list in a store costs is known before it is asked for.
  if (store && many && !data && !error) return <div class="loading">Loading…</div>;
  return key === undefined ? <List key={store} p={p} stores={data?.stores ?? []} /> : <OneClaim key={id} name={key} p={p} />;
}

const states = ["held", "stuck", "parked", "failed", "exhausted", "released", "completed", "unreadable"];
const labels: Record<string, string> = { stuck: "stuck: no worker has it" };

function State({ c }: { c: ClaimView }) {
  const over = c.state === "held" && c.ageMs !== null && !c.remainingMs;
  const kind = c.state === "completed" ? "good" : over || c.state === "parked" || c.state === "exhausted" || c.state === "unreadable" ? "bad" : c.state === "held" ? "busy" : c.state === "failed" ? "warn" : "idle";
  return <Badge kind={kind}>{over ? "held, lease expired" : c.state === "parked" ? "parked: awaits a decision" : c.state}</Badge>;
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const From = ({ id = "" }: { id?: string }) => uuid.test(id) ? <MessageLink id={id} /> : id ? <T text={id} /> : <span class="dim">–</span>;

function List({ p, stores }: { p: Place; stores: ClaimStore[] }) {
  const { ledger, store } = p, costs = p.at?.readsAll ?? false;
  const [sure, read] = useState(false);
  const q = route.value.query, prefix = q.get("prefix") ?? "", state = q.get("state") ?? "";
  const query = { ledger, store, prefix, state, limit: 50 };
  // A store that reads its whole table for each list is read when a person asks for it, and once.
  const asked = useGet<ClaimList>(costs && !sure ? null : "/claims", query, costs ? 0 : every);
  // Many claims may lie between two that match: a search goes on until it has found one. [CONSOLE-18]
  const { got: more, busy, error, start, stop, reset } = useWalk<ClaimList>(async (before, signal) => {
    const got = await get<ClaimList>("/claims", { ...query, after: before ? before.next : asked.data?.next }, signal);
    return [{ ...got, claims: [...(before?.claims ?? []), ...got.claims], looked: got.looked + (before?.looked ?? 0) }, !got.next || got.claims.length > 0];
  });
  useEffect(reset, [ledger, prefix, state, epoch.value]);
  useEffect(() => read(false), [ledger, prefix, state]);
  const words = (name: string, ...rest: Word[]): Word[] => ["tenaq", "claims", name, ...rest, ...found(p)];
  useCommands([state === "stuck" ? cmd("List claims that no worker has, longest first", ...words("stuck", "--older-than", "0s")) : cmd("List claims", ...words("list", ...(prefix ? [v(prefix)] : []), ...(state ? ["--state", state] : []))),
    cmd("Show a claim", ...words("show", v(prefix || "order-42"))), cmd("Say what can be done about stuck claims", ...words("sweep"))]);
  return <Fragment>
    <h1>Claims<Seen at={asked.at} every={every} /></h1>
    <div class="filters" role="search" aria-label="Claims">
      <Field name="Key begins with" value={prefix} set={(v) => change({ prefix: v })} hint="order-42" />
      <Choice name="State" value={state} values={[["", "all"], ...states.map((s): [string, string] => [s, labels[s] ?? s])]} set={(v) => change({ state: v })} />
      {stores.length > 0 && <Choice name="Store" value={store} values={[["", "this server"], ...stores.map((s): [string, string] => [s.name, s.name])]} set={(v) => change({ store: v })} />}
      <Field name="Ledger" value={ledger} set={(v) => change({ ledger: v === "claim/" ? "" : v })} hint="claim/" />
    </div>
    {error && <div class="problem" role="alert"><T text={error} /></div>}
    {p.at && <p class="dim why">These claims are in <code><T text={p.at.records} /></code>.</p>}
    {costs && !sure ? <Empty><p>Each list reads the whole table, for which you pay. A key that is known is found at once: <code>tenaq claims show KEY</code>.</p><button type="button" onClick={() => read(true)}>Read the table</button></Empty> : <Wait of={asked}>{(d) => {
      const all = [...d.claims, ...(more?.claims ?? []).filter((c) => !d.claims.some((first) => first.key === c.key))], next = more ? more.next : d.next, looked = d.looked + (more?.looked ?? 0);
      return <Fragment>
        {all.length === 0 ? prefix || state || next ? <Empty>No claim matches{next && ` among the first ${plural(looked, "claim")}`}.</Empty> : <None at={p.at} />
          : <Table<ClaimView> name="Claims" class="messages" rows={all} id={(c) => c.key} columns={[
            { name: "Key", cell: (c) => <a data-row class="key-cell" href={link(["claims", c.key], inPlace(p))}><T text={c.key} /></a> },
            { name: "State", cell: (c) => <State c={c} /> },
            { name: "Age", number: true, cell: (c) => c.ageMs === null ? <span class="dim">–</span> : age(c.ageMs) },
            { name: "Attempts", number: true, cell: (c) => count(c.attempts) },
            { name: "Owner", cell: (c) => <T text={c.owner} /> },
            { name: "Message", cell: (c) => <From id={c.messageId} /> },
            { name: "Reason", wide: true, cell: (c) => <T text={c.reason ?? ""} /> },
          ]} />}
        {next && <More ask={() => void (busy ? stop() : start())} busy={busy && !state}>{busy ? "Stop" : all.length ? "More claims" : "Search further"}</More>}
      </Fragment>;
    }}</Wait>}
  </Fragment>;
}

function None({ at }: { at?: ClaimStore }) {
  if (at) return <Empty>There is no claim in this ledger of the store {at.name}.</Empty>;
  return <Empty><h2>There is no claim in the records of this server</h2>
    <p>A worker claims the key of its work before it begins, so that the work is done once. <code>tenaq pipe</code>, package <code>claims</code> and <code>POST /v1/claims/KEY/acquire</code> keep claims here.</p>
    <p>To see claims in PostgreSQL, SQLite or DynamoDB, name their stores under <code>claims:</code> in the configuration of the server, or use <code>tenaq claims list --records ADDRESS</code>.</p></Empty>;
}

function OneClaim({ name, p }: { name: string; p: Place }) {
  const { ledger, store } = p;
  const asked = useGet<ClaimView>("/claims/" + encodeURIComponent(name), { ledger, store }, every);
  const words = (verb: string, ...rest: Word[]): Word[] => ["tenaq", "claims", verb, v(name), ...rest, ...found(p)];
  useCommands([cmd("Show the claim", ...words("show")), cmd("Record that its work is done", ...words("settle", "--reason", "the bank has it")), cmd("Let it be claimed again", ...words("release", "--reason", "the bank knows nothing of it")),
    cmd("Show the life of this work", "tenaq", "trace", v(name))]);
  return <Fragment>
    <h1><a class="up" href={link(["claims"], inPlace(p))}>Claims</a> <span aria-hidden="true" class="dim">/</span> <T text={name} /><Seen at={asked.at} every={every} /></h1>
    <Wait of={asked}>{(c) => <Fragment>
      <p class="bar"><State c={c} />{can("tenaq:ManageClaims") && c.state !== "unreadable" && <span class="acts apart">
        <button type="button" onClick={() => void ask((m) => <Decide m={m} c={c} p={p} settle />)}>Settle…</button>
        <button type="button" onClick={() => void ask((m) => <Decide m={m} c={c} p={p} />)}>Release…</button></span>}</p>
      <dl class="facts">
        <Fact name="Owner"><T text={c.owner} /></Fact><Fact name="Attempts">{count(c.attempts)}</Fact>
        <Fact name="Written">{c.ageMs === null ? "unknown: the store has no clock" : age(c.ageMs + Math.max(0, now.value - asked.at)) + " ago"}</Fact>
        {c.state === "held" && <Fact name="Lease">{c.ageMs === null ? `${age(c.leaseMs ?? 0)}, and it is unknown whether it is over` : c.remainingMs ? `${age(c.remainingMs)} of ${age(c.leaseMs ?? 0)} left` : `${age(c.leaseMs ?? 0)}, expired: the holder is lost or slow`}</Fact>}
        {c.messageId && <Fact name="Message"><From id={c.messageId} /></Fact>}
        {c.fence ? <Fact name="Fence">{String(c.fence)}</Fact> : null}
        {store && <Fact name="Store"><T text={p.at?.records ?? store} /></Fact>}
        {ledger !== "claim/" && <Fact name="Ledger"><T text={ledger} /></Fact>}
        {c.reason && <Fact name="Reason"><span class="why"><T text={c.reason} /></span></Fact>}
        <Bytes name="Result" text={c.result} base64={c.resultBase64} /><Bytes name="Memo" text={c.memo} base64={c.memoBase64} />
      </dl>
    </Fragment>}</Wait>
    {!store && <Life asked={name} ledger={ledger} />}
    <p><a href={link(["trace", name])}>Show where the work is now</a></p>
  </Fragment>;
}

const Bytes = ({ name, text, base64 }: { name: string; text?: string | null; base64?: string }) =>
  text || base64 ? <Fact name={name + (text ? "" : ", in base64")}><pre><T text={text || base64 || ""} /></pre></Fact> : null;

// Decide settles the claim on a key, or lets it be claimed again. [REC-17, REC-18]
function Decide({ m: { Act, Input }, c, p, settle }: { m: typeof import("../change"); c: ClaimView; p: Place; settle?: boolean }) {
  const [why, setWhy] = useState(""), [result, setResult] = useState(""), [sure, setSure] = useState(false);
  const risk = c.state === "completed" ? settle ? "The work is already completed: its result will be replaced." : "The work is already completed: it will be done again."
    : c.state === "held" && c.ageMs === null ? `${c.owner} holds the claim, and it is unknown whether its lease has expired, because the store has no clock.`
    : c.remainingMs ? `${c.owner} holds the claim, and its lease has ${age(c.remainingMs)} left. If that holder is alive, it loses the claim${settle ? "." : ", and another one may begin the work."}` : "";
  const lost = c.state === "held" && (c.ageMs === null || !!c.remainingMs); // a holder that may be alive
  const words = (verb: string): Word[] => ["tenaq", "claims", verb, v(c.key), "--reason", v(why || "the bank has it"), ...(settle && result ? ["--result", v(result)] : []), ...(risk ? ["--force"] : []), ...found(p)];
  const path = "/claims/" + encodeURIComponent(c.key), of = { ledger: p.ledger, ...(p.store ? { store: p.store } : {}) };
  // A decision can be taken back while it is the last change of the claim. [REC-19]
  const decide: Change<Said> = async ({ post }) => {
    const { undo } = await post<ClaimView>(`${path}/${settle ? "settle" : "reopen"}`, { ...of, reason: why, ...(risk ? { force: true } : {}), ...(settle && result ? { result } : {}) });
    return { text: settle ? `Recorded that ${c.key} is done.` : `${c.key} can be claimed again.`, ...(undo ? { undo: ({ post }) => post(path + "/undo", { ...of, undo }), ...(p.store || p.ledger !== "claim/" ? {} : { where: [["claims", c.key], "Show the claim"] }) } : {}) };
  };
  return <Act title={settle ? `Settle ${c.key}` : `Release ${c.key}`} label={settle ? "Settle" : "Release"} danger={risk !== ""} act={decide} ready={why.trim() !== "" && (risk === "" || sure)}
    same={settle ? same("settle", "Record that it is done", ...words("settle")) : same("release", "Let it be claimed again", ...words("release"))}>
    <p>{settle ? "The work is recorded as done, and is not done again." : "The key can be claimed at once, and its attempts start again. Nothing is sent: the next delivery of the message does the work."} {lost ? "This cannot be taken back." : "It can be taken back while no worker has acted on it."}</p>
    <Input name="Reason" value={why} set={setWhy} required wide hint="for people who look at it later" />
    {settle && <Input name="Result" value={result} set={setResult} wide hint="of the work, for later callers" />}
    {risk && <label class="check problem"><input type="checkbox" checked={sure} onChange={(e) => setSure(e.currentTarget.checked)} /> <span><T text={risk} /> Do it anyway.</span></label>}
  </Act>;
}
