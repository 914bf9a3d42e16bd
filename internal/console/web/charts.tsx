// The charts of a queue, minutes first and then live, and the same numbers as a table.

import { Fragment, h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { QueueSeries, SeriesList, Tick } from "./api.gen";
import { useGet } from "./api";
import type { Line } from "./chart";
import { age, count, rate } from "./format";
import { points, polling, restarts, type Point } from "./live";
import { Choice, Time } from "./parts";
import { change, has, route, scheme, zone } from "./state";

type Value = (queue: Tick["queues"][string]) => number | undefined;
interface Shown extends Line {
  value: Value;
  past: keyof QueueSeries;
  text?(n: number): string; // of milliseconds, which the chart has in seconds
}

const rates: Shown[] = [
  { name: "sent", color: "--c1", value: (q) => q.sent, past: "sentPerS" },
  { name: "received", color: "--c2", dash: [6, 3], value: (q) => q.received, past: "receivedPerS" },
  { name: "deleted", color: "--c3", dash: [2, 3], value: (q) => q.deleted, past: "deletedPerS" },
];
const depths: Shown[] = [
  { name: "visible", color: "--c1", value: (q) => q.depth?.visible, past: "visible" },
  { name: "in flight", color: "--c2", dash: [6, 3], value: (q) => q.depth?.inFlight, past: "inFlight" },
  { name: "delayed", color: "--c3", dash: [2, 3], value: (q) => q.depth?.delayed, past: "delayed" },
];
const ages: Shown[] = [{ name: "oldest", color: "--c1", value: (q) => q.depth?.oldestAgeMs, past: "oldestAgeMs", text: age }];
const all = [...rates, ...depths, ...ages];
const plotted = (l: Shown, n: number | null | undefined) => (n == null ? null : l.text ? n / 1000 : n);

// live are the points since the first tick.
function live(): Point[] {
  const first = points.peek().findIndex((p) => p.tick);
  return first < 0 ? [] : points.peek().slice(first);
}

// ends are when the periods ended that the live numbers do not cover.
function ends(past: SeriesList | undefined): number[] {
  if (!past) return [];
  const from = Date.parse(past.from), until = live()[0]?.at ?? Infinity;
  return Array.from({ length: past.periods }, (_, i) => from + (i + 1) * past.periodMs).filter((at) => at < until);
}

const valueOf = (past: SeriesList, queue: string, line: Shown, i: number) => past.queues[queue]?.[line.past][i] ?? null;

// starts are when the server started: as it says itself, and earlier as this page has noticed.
function starts(past: SeriesList | undefined): number[] {
  const since = past ? Date.parse(past.since) : Infinity;
  return [...restarts.peek().filter((at) => at < since), since];
}

function Chart({ title, lines, queue, past }: { title: string; lines: Shown[]; queue: string; past?: SeriesList }) {
  const into = useRef<HTMLDivElement>(null);
  const [failed, fail] = useState(false);
  const chart = useRef<{ set(data: (number | null)[][]): void; end(): void } | null>(null);
  const before = useRef(past);
  before.current = past;
  const data = () => {
    const ticks = live(), minutes = ends(past);
    return [[...minutes, ...ticks.map((p) => p.at)].map((ms) => ms / 1000), ...lines.map((l) => [
      ...minutes.map((_, i) => plotted(l, valueOf(past!, queue, l, i))), ...ticks.map((p) => {
        const q = p.tick?.queues[queue];
        return plotted(l, q && l.value(q));
      })])];
  };
  useEffect(() => {
    let ended = false;
    import("./chart").then(({ draw }) => {
      if (ended || !into.current) return;
      chart.current = draw(into.current, lines, () => starts(before.current).map((ms) => ms / 1000));
      chart.current.set(data());
    }, () => fail(true)); // the server is away; browsers do not load a script again that they did not get
    return () => {
      ended = true;
      chart.current?.end();
      chart.current = null;
    };
  }, [queue, scheme.value, zone.value]);
  const now = points.value;
  useEffect(() => chart.current?.set(data()), [now, past]);
  const last = polling.value ? undefined : now.findLast((p) => p.tick)?.tick?.queues[queue];
  return <figure class="chart">
    <figcaption>{title}<span class="legend">{lines.map((l) => <span key={l.name} class={"key " + l.color.slice(2)}>
      {l.name} <b>{last && l.value(last) !== undefined ? (l.text ?? count)(l.value(last)!) : "–"}</b></span>)}</span></figcaption>
    {failed ? <p class="dim">The chart could not be loaded. Reload the page to see it.</p> : <div ref={into} class="plot" aria-hidden="true" />}
  </figure>;
}

const spans: [string, string][] = [["1h", "the last hour"], ["6h", "6 hours"], ["24h", "24 hours"]];

export function Charts({ queue }: { queue: string }) {
  const kept = has("series", "tenaq:ListQueues"), last = route.value.query.get("last") ?? "1h";
  const past = useGet<SeriesList>(kept ? "/series" : null, { queues: queue, last }, 30_000).data;
  const [open, show] = useState(false);
  const ticks = points.value.filter((p) => p.tick?.queues[queue]);
  const row = (at: number, cell: (l: Shown) => string | number) => <tr key={at}><td data-name="time"><Time at={at} /></td>
    {all.map((l) => <td key={l.name} data-name={l.name} class="number">{cell(l)}</td>)}</tr>;
  const minute = (l: Shown, i: number) => {
    const n = valueOf(past!, queue, l, i);
    return n === null ? "–" : l.text ? l.text(n) : l.past.endsWith("PerS") ? rate(n) : count(n);
  };
  return <Fragment>
    {kept && <div class="filters"><Choice name="Charts of" value={last} values={spans} set={(v) => change({ last: v === "1h" ? undefined : v })} /></div>}
    <div class="charts">
      <Chart title="Messages per second" lines={rates} queue={queue} past={past} />
      <Chart title="Where messages are" lines={depths} queue={queue} past={past} />
      <Chart title="Age in seconds" lines={ages} queue={queue} past={past} />
    </div>
    <details class="numbers" onToggle={(e) => show(e.currentTarget.open)}><summary>The numbers as a table</summary>
      {open && <table class="list"><caption class="hidden">The last ten seconds, and the minutes before</caption>
        <thead><tr><th scope="col">Time</th>{all.map((l) => <th key={l.name} scope="col" class="number">{l.name}</th>)}</tr></thead>
        <tbody>{ticks.slice(-10).reverse().map((p) => row(p.at, (l) => {
          const n = l.value(p.tick!.queues[queue]);
          return n === undefined ? "–" : l.text ? l.text(n) : n;
        }))}
          {ends(past).map((at, i) => row(at, (l) => minute(l, i))).reverse()}</tbody>
      </table>}</details>
    <p class="dim small">{kept && <Fragment>Rates are averages over {last === "24h" ? "five minutes" : "a minute"}; the other lines show the highest number in that time. </Fragment>}The last five minutes of this page are live, second by second. A line has a gap where the server has no data. A dashed line marks when the server started.</p>
  </Fragment>;
}
