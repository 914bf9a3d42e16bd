// The parts that screens are made of.

import { Fragment, h, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Failed, type Asked } from "./api";
import { age, both, clock, count, plain } from "./format";
import { link, now, paused } from "./state";

type Children = { children?: ComponentChildren };

// T is a text of users: escapes stand for what cannot be seen. [CONSOLE-6]
export const T = ({ text }: { text: string }) => <Fragment>{plain(text)}</Fragment>;

// Time shows a time, and in its tooltip both zones.
export function Time({ at }: { at?: string | number | null }) {
  if (!at) return <span class="dim">–</span>;
  return <time dateTime={new Date(at).toISOString()} title={both(at)}>{clock(at)}</time>;
}

export const QueueLink = ({ name, tab }: { name: string; tab?: string }) =>
  <a href={link(tab ? ["q", name, tab] : ["q", name])}><T text={name} /></a>;

export const MessageLink = ({ id, children }: { id: string } & Children) =>
  <a class="mono" href={link(["m", id])} title={id}>{children ?? id.slice(0, 8)}</a>;

// Badge is a state: a word and a shape besides the colour.
const shapes: Record<string, string> = {
  good: "●", bad: "▲", warn: "◆", idle: "○", busy: "◐",
};
export const Badge = ({ kind, children }: { kind: "good" | "bad" | "warn" | "idle" | "busy" } & Children) =>
  <span class={"badge " + kind}><span aria-hidden="true">{shapes[kind]}</span> {children}</span>;

export function State({ state }: { state: string }) {
  const kind = state === "in_flight" ? "busy" : state === "visible" ? "good" : state === "delayed" ? "idle" : "warn";
  return <Badge kind={kind}>{state.replace("_", " ")}</Badge>;
}

export const Fact = ({ name, children, title }: { name: string; title?: string } & Children) =>
  <div class="fact" title={title}><dt>{name}</dt><dd>{children}</dd></div>;

export const Figure = ({ name, children, note }: { name: string; note?: ComponentChildren } & Children) =>
  <div class="figure"><span class="value">{children}</span><span class="name">{name}</span>
    {note && <span class="note">{note}</span>}</div>;

export const Empty = ({ children }: Children) => <div class="empty">{children}</div>;

// Wait stands where data will be: it says that the server is slow or why there is no data. Data that
// is there stays on the screen beside an error.
export function Wait<D>({ of, children }: { of: Asked<D>; children: (data: D) => ComponentChildren }) {
  return <Fragment>
    {of.error && of.error.status > 0 && <div class="problem" role="alert">
      <strong>{of.error.status === 403 ? "Not allowed." : of.error.status === 404 ? "Not found." : "Refused."}</strong>{" "}
      <T text={of.error.message} />
      {of.data !== undefined && " The numbers below are older."}
    </div>}
    {of.data !== undefined ? children(of.data) : !of.error
      ? <div class="loading">{of.slow ? "The server is slow. Still waiting…" : "Loading…"}</div>
      : of.error.status === 0 && <div class="loading">Waiting for the server…</div>}
  </Fragment>;
}

// Seen says how old numbers are, when they are older than they should be.
export function Seen({ at, every }: { at: number; every: number }) {
  const old = now.value - at;
  if (!at || (old < 2 * every + 1000 && !paused.value)) return null;
  return <span class="seen">as of <Time at={at} />, {age(old)} ago</span>;
}

export interface Column<R> {
  name: string;
  cell(row: R): ComponentChildren;
  number?: boolean;
  wide?: boolean; // takes what room there is
  label?: string; // on narrow screens, where a row is a card
}

// Table is a table whose rows can be gone through by keys. On narrow screens each row is a card.
export function Table<R>({ name, columns, rows, of, id, class: className }: {
  name: string; columns: Column<R>[]; rows: R[]; id(row: R): string; of?(row: R): string | undefined; class?: string;
}) {
  return <table class={"list " + (className ?? "")}>
    <caption class="hidden">{name}</caption>
    <thead><tr>{columns.map((c) => <th key={c.name} scope="col" class={c.number ? "number" : c.wide ? "wide" : ""}>{c.name}</th>)}</tr></thead>
    <tbody>{rows.map((row) => <tr key={id(row)} aria-current={of?.(row) as "true" | undefined}>{columns.map((c) =>
      <td key={c.name} data-name={c.label ?? c.name} class={c.number ? "number" : c.wide ? "wide" : ""}>{c.cell(row)}</td>)}</tr>)}</tbody>
  </table>;
}

// Copy copies a text, or one that it reads first. Where the browser has no clipboard for the page,
// there is no button.
export function Copy({ text, what, label = "Copy" }: { text: string | (() => Promise<string>); what: string; label?: string }) {
  const [done, set] = useState("");
  if (!navigator.clipboard) return null;
  const copy = async () => {
    try {
      if (typeof text !== "string") set("Reading…");
      await navigator.clipboard.writeText(typeof text === "string" ? text : await text());
      set("Copied");
    } catch (e) {
      set(e instanceof Failed ? "Not copied" : "Not allowed");
    }
    setTimeout(() => set(""), 2000);
  };
  return <button type="button" class="small" onClick={copy} aria-label={done ? `${done}: ${what}` : `Copy ${what}`}>{done || label}</button>;
}

// Field is a control of a filter. It hands its value over when the user stops typing.
export function Field({ name, value, set, wide, hint }: {
  name: string; value: string; set(value: string): void; wide?: boolean; hint?: string;
}) {
  const [text, type] = useState(value);
  const timer = useRef(0);
  useEffect(() => type(value), [value]);
  const typed = (v: string) => {
    type(v);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => set(v.trim()), 300);
  };
  return <label class={"field" + (wide ? " wide" : "")}><span>{name}</span>
    <input type="search" value={text} placeholder={hint} autocomplete="off" spellcheck={false}
      onInput={(e) => typed(e.currentTarget.value)} /></label>;
}

export function Choice({ name, value, values, set }: {
  name: string; value: string; values: [value: string, label: string][]; set(value: string): void;
}) {
  return <label class="field"><span>{name}</span>
    <select value={value} onChange={(e) => set(e.currentTarget.value)}>
      {values.map(([v, label]) => <option key={v} value={v}>{label}</option>)}
    </select></label>;
}

export const More = ({ ask, busy, children }: { ask(): void; busy?: boolean } & Children) =>
  <div class="more"><button type="button" onClick={ask} disabled={busy}>{busy ? "Loading…" : children ?? "More"}</button></div>;

export const Count = ({ n }: { n: number }) => n === 0 ? <span class="dim">0</span> : <Fragment>{count(n)}</Fragment>;

export function Age({ ms }: { ms: number }) {
  return ms > 0 ? <Fragment>{age(ms)}</Fragment> : <span class="dim">–</span>;
}

// say puts a sentence where screen readers hear it.
export function say(text: string): void {
  const region = document.getElementById("said");
  if (region) region.textContent = text;
}

// title names the page in the browser's tab.
export function useTitle(text: string): void {
  useEffect(() => {
    document.title = text + " · tenaq";
  }, [text]);
}
