// Claims on work: who holds them, how they ended, and what awaits a person.

import { Fragment, h } from "preact";
import { useEffect } from "preact/hooks";
import type { ClaimList, ClaimView } from "../api.gen";
import { ask } from "../act";
import { get, useGet, useWalk } from "../api";
import { cmd, inLedger, useCommands, v, type Word } from "../commands";
import { age, count, plural } from "../format";
import { Badge, Choice, Empty, Fact, Field, MessageLink, More, Seen, T, Table, useTitle, Wait } from "../parts";
import { can, change, epoch, link, now, route } from "../state";
import { Life } from "./trace";

const every = 5000;

export function Claims() {
  const [, key] = route.value.path, ledger = route.value.query.get("ledger") || "claim/";
  useTitle(key ? "Claim on " + key.slice(0, 40) : "Claims");
  return key === undefined ? <List ledger={ledger} /> : <OneClaim key={ledger + key} name={key} ledger={ledger} />;
}

const states = ["held", "stuck", "parked", "failed", "exhausted", "released", "completed", "unreadable"];
const labels: Record<string, string> = { stuck: "stuck: no worker has it" };

function State({ c }: { c: ClaimView }) {
  const over = c.state === "held" && !c.remainingMs;
  const kind = c.state === "completed" ? "good" : over || c.state === "parked" || c.state === "exhausted" || c.state === "unreadable" ? "bad" : c.state === "held" ? "busy" : c.state === "failed" ? "warn" : "idle";
  return <Badge kind={kind}>{over ? "held, lease expired" : c.state === "parked" ? "parked: awaits a decision" : c.state}</Badge>;
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const From = ({ id = "" }: { id?: string }) => uuid.test(id) ? <MessageLink id={id} /> : id ? <T text={id} /> : <span class="dim">–</span>;

function List({ ledger }: { ledger: string }) {
  const q = route.value.query, prefix = q.get("prefix") ?? "", state = q.get("state") ?? "";
  const query = { ledger, prefix, state, limit: 50 };
  const asked = useGet<ClaimList>("/claims", query, every);
  // Many claims may lie between two that match: a search goes on until it has found one. [CONSOLE-18]
  const { got: more, busy, error, start, stop, reset } = useWalk<ClaimList>(async (before, signal) => {
    const got = await get<ClaimList>("/claims", { ...query, after: before ? before.next : asked.data?.next }, signal);
    return [{ ...got, claims: [...(before?.claims ?? []), ...got.claims], looked: got.looked + (before?.looked ?? 0) }, !got.next || got.claims.length > 0];
  });
  useEffect(reset, [ledger, prefix, state, epoch.value]);
  const words = (name: string, ...rest: Word[]): Word[] => ["tenaq", "claims", name, ...rest, ...inLedger(ledger)];
  useCommands([state === "stuck" ? cmd("List claims that no worker has, longest first", ...words("stuck", "--older-than", "0s")) : cmd("List claims", ...words("list", ...(prefix ? [v(prefix)] : []), ...(state ? ["--state", state] : []))),
    cmd("Show a claim", ...words("show", v(prefix || "order-42"))), cmd("Say what can be done about stuck claims", ...words("sweep"))]);
  return <Fragment>
    <h1>Claims<Seen at={asked.at} every={every} /></h1>
    <div class="filters" role="search" aria-label="Claims">
      <Field name="Key begins with" value={prefix} set={(v) => change({ prefix: v })} hint="order-42" />
      <Choice name="State" value={state} values={[["", "all"], ...states.map((s): [string, string] => [s, labels[s] ?? s])]} set={(v) => change({ state: v })} />
      <Field name="Ledger" value={ledger} set={(v) => change({ ledger: v === "claim/" ? "" : v })} hint="claim/" />
    </div>
    {error && <div class="problem" role="alert"><T text={error} /></div>}
    <Wait of={asked}>{(d) => {
      const all = [...d.claims, ...(more?.claims ?? []).filter((c) => !d.claims.some((first) => first.key === c.key))], next = more ? more.next : d.next, looked = d.looked + (more?.looked ?? 0);
      return <Fragment>
        {all.length === 0 ? prefix || state || next ? <Empty>No claim matches{next && ` among the first ${plural(looked, "claim")}`}.</Empty> : <None />
          : <Table<ClaimView> name="Claims" class="messages" rows={all} id={(c) => c.key} columns={[
            { name: "Key", cell: (c) => <a data-row class="key-cell" href={link(["claims", c.key], { ledger: ledger === "claim/" ? "" : ledger })}><T text={c.key} /></a> },
            { name: "State", cell: (c) => <State c={c} /> },
            { name: "Age", number: true, cell: (c) => age(c.ageMs) },
            { name: "Attempts", number: true, cell: (c) => count(c.attempts) },
            { name: "Owner", cell: (c) => <T text={c.owner} /> },
            { name: "Message", cell: (c) => <From id={c.messageId} /> },
            { name: "Reason", wide: true, cell: (c) => <T text={c.reason ?? ""} /> },
          ]} />}
        {next && <More ask={() => void (busy ? stop() : start())} busy={busy && !state}>{busy ? "Stop" : all.length ? "More claims" : "Search further"}</More>}
      </Fragment>;
    }}</Wait>
  </Fragment>;
}

function None() {
  return <Empty><h2>There is no claim in the records of this server</h2>
    <p>A worker claims the key of its work before it begins, so that the work is done once. <code>tenaq pipe</code>, package <code>claims</code> and <code>POST /v1/claims/KEY/acquire</code> keep claims here.</p>
    <p>Claims in PostgreSQL, SQLite or DynamoDB are listed by <code>tenaq claims list --records ADDRESS</code>.</p></Empty>;
}

function OneClaim({ name, ledger }: { name: string; ledger: string }) {
  const asked = useGet<ClaimView>("/claims/" + encodeURIComponent(name), { ledger }, every);
  const words = (verb: string, ...rest: Word[]): Word[] => ["tenaq", "claims", verb, v(name), ...rest, ...inLedger(ledger)];
  useCommands([cmd("Show the claim", ...words("show")), cmd("Record that its work is done", ...words("settle", "--reason", "the bank has it")), cmd("Let it be claimed again", ...words("release", "--reason", "the bank knows nothing of it")),
    cmd("Show the life of this work", "tenaq", "trace", v(name))]);
  return <Fragment>
    <h1><a class="up" href={link(["claims"], { ledger: ledger === "claim/" ? "" : ledger })}>Claims</a> <span aria-hidden="true" class="dim">/</span> <T text={name} /><Seen at={asked.at} every={every} /></h1>
    <Wait of={asked}>{(c) => <Fragment>
      <p class="bar"><State c={c} />{can("tenaq:ManageClaims") && c.state !== "unreadable" && <span class="acts apart">
        <button type="button" onClick={() => void ask((m) => <m.Decide c={c} ledger={ledger} settle />)}>Settle…</button>
        <button type="button" onClick={() => void ask((m) => <m.Decide c={c} ledger={ledger} />)}>Release…</button></span>}</p>
      <dl class="facts">
        <Fact name="Owner"><T text={c.owner} /></Fact><Fact name="Attempts">{count(c.attempts)}</Fact>
        <Fact name="Written">{age(c.ageMs + Math.max(0, now.value - asked.at))} ago</Fact>
        {c.state === "held" && <Fact name="Lease">{c.remainingMs ? `${age(c.remainingMs)} of ${age(c.leaseMs ?? 0)} left` : `${age(c.leaseMs ?? 0)}, expired: the holder is lost or slow`}</Fact>}
        {c.messageId && <Fact name="Message"><From id={c.messageId} /></Fact>}
        {c.fence ? <Fact name="Fence">{String(c.fence)}</Fact> : null}
        {ledger !== "claim/" && <Fact name="Ledger"><T text={ledger} /></Fact>}
        {c.reason && <Fact name="Reason"><span class="why"><T text={c.reason} /></span></Fact>}
        <Bytes name="Result" text={c.result} base64={c.resultBase64} /><Bytes name="Memo" text={c.memo} base64={c.memoBase64} />
      </dl>
    </Fragment>}</Wait>
    <Life asked={name} ledger={ledger} />
    <p><a href={link(["trace", name])}>Show where the work is now</a></p>
  </Fragment>;
}

const Bytes = ({ name, text, base64 }: { name: string; text?: string | null; base64?: string }) =>
  text || base64 ? <Fact name={name + (text ? "" : ", in base64")}><pre><T text={text || base64 || ""} /></pre></Fact> : null;
