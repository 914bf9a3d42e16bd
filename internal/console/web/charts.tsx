// The live charts of a queue, and the same numbers as a table.

import { Fragment, h } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Tick } from "./api.gen";
import type { Line } from "./chart";
import { count } from "./format";
import { points, restarts } from "./live";
import { Time } from "./parts";
import { scheme, zone } from "./state";

type Value = (queue: Tick["queues"][string]) => number | undefined;
interface Shown extends Line {
  value: Value;
}

const rates: Shown[] = [
  { name: "sent", color: "--c1", value: (q) => q.sent },
  { name: "received", color: "--c2", dash: [6, 3], value: (q) => q.received },
  { name: "deleted", color: "--c3", dash: [2, 3], value: (q) => q.deleted },
];
const depths: Shown[] = [
  { name: "visible", color: "--c1", value: (q) => q.depth?.visible },
  { name: "in flight", color: "--c2", dash: [6, 3], value: (q) => q.depth?.inFlight },
  { name: "delayed", color: "--c3", dash: [2, 3], value: (q) => q.depth?.delayed },
];

function Chart({ title, lines, queue }: { title: string; lines: Shown[]; queue: string }) {
  const into = useRef<HTMLDivElement>(null);
  const [failed, fail] = useState(false);
  const chart = useRef<{ set(data: (number | null)[][]): void; end(): void } | null>(null);
  const data = () => {
    const all = points.peek();
    return [all.map((p) => p.at / 1000), ...lines.map((l) => all.map((p) => {
      const q = p.tick?.queues[queue];
      return (q && l.value(q)) ?? null;
    }))];
  };
  useEffect(() => {
    let ended = false;
    import("./chart").then(({ draw }) => {
      if (ended || !into.current) return;
      chart.current = draw(into.current, lines, () => restarts.peek().map((ms) => ms / 1000));
      chart.current.set(data());
    }, () => fail(true)); // the server is away; browsers do not load a script again that they did not get
    return () => {
      ended = true;
      chart.current?.end();
      chart.current = null;
    };
  }, [queue, scheme.value, zone.value]);
  const now = points.value;
  useEffect(() => chart.current?.set(data()), [now]);
  const last = now.findLast((p) => p.tick)?.tick?.queues[queue];
  return <figure class="chart">
    <figcaption>{title}<span class="legend">{lines.map((l) => <span key={l.name} class={"key " + l.color.slice(2)}>
      {l.name} <b>{last && l.value(last) !== undefined ? count(l.value(last)!) : "–"}</b></span>)}</span></figcaption>
    {failed ? <p class="dim">The chart could not be loaded. Load the page again to see it.</p> : <div ref={into} class="plot" aria-hidden="true" />}
  </figure>;
}

export function Charts({ queue }: { queue: string }) {
  const all = points.value.filter((p) => p.tick?.queues[queue]);
  return <Fragment>
    <div class="charts">
      <Chart title="Messages per second" lines={rates} queue={queue} />
      <Chart title="Where messages are" lines={depths} queue={queue} />
    </div>
    <details class="numbers"><summary>The latest numbers as a table</summary>
      <table class="list"><caption class="hidden">The last ten seconds</caption>
        <thead><tr><th scope="col">Time</th>{[...rates, ...depths].map((l) => <th key={l.name} scope="col" class="number">{l.name}</th>)}</tr></thead>
        <tbody>{all.slice(-10).reverse().map((p) => <tr key={p.at}><td data-name="time"><Time at={p.at} /></td>
          {[...rates, ...depths].map((l) => <td key={l.name} data-name={l.name} class="number">{l.value(p.tick!.queues[queue]) ?? "–"}</td>)}</tr>)}</tbody>
      </table></details>
    <p class="dim small">The charts start when you open the page and show up to five minutes. A dashed line marks a restart of the server.</p>
  </Fragment>;
}
