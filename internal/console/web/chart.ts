// Charts, in a script of their own, which only pages with charts load.

import uPlot from "uplot";
import { zone } from "./state";

export interface Line {
  name: string;
  color: string; // a variable of the style sheet
  dash?: number[];
}

function colorOf(name: string): string {
  // light-dark() is resolved where a colour is used, not where it is declared
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}

// All numbers are counts, so no line is between two of them.
const whole = Array.from({ length: 16 }, (_, i) => [1, 2, 5].map((n) => n * 10 ** i)).flat();

const compact = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

// draw makes a chart in an element. Times are seconds; null is a gap. Marks are times of restarts.
export function draw(into: HTMLElement, lines: Line[], marks: () => number[]): { set(data: (number | null)[][]): void; end(): void } {
  const axis = () => colorOf("--dim"), grid = () => colorOf("--line");
  const options: uPlot.Options = {
    width: Math.max(into.clientWidth, 100), height: 150,
    cursor: { y: false }, legend: { show: false }, padding: [10, 8, 6, 0],
    tzDate: (ts) => (zone.value === "utc" ? uPlot.tzDate(new Date(ts * 1000), "Etc/UTC") : new Date(ts * 1000)),
    scales: { y: { range: (_, __, most) => [0, Math.max(1, most * 1.1)] } },
    axes: [
      { stroke: axis, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif", size: 26,
        values: (_, splits) => splits.map((s) => uPlot.fmtDate("{HH}:{mm}:{ss}")(
          zone.value === "utc" ? uPlot.tzDate(new Date(s * 1000), "Etc/UTC") : new Date(s * 1000))), space: 80 },
      { stroke: axis, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif", size: 44,
        values: (_, splits) => splits.map((v) => compact.format(v)), space: 34, incrs: whole },
    ],
    series: [{}, ...lines.map((l): uPlot.Series => ({
      label: l.name, stroke: () => colorOf(l.color), width: 1.75, dash: l.dash, points: { show: false }, spanGaps: false,
    }))],
    hooks: {
      draw: [(u) => {
        u.ctx.save();
        u.ctx.strokeStyle = colorOf("--bad");
        u.ctx.setLineDash([4, 4]);
        for (const at of marks()) {
          const x = u.valToPos(at, "x", true);
          if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
          u.ctx.beginPath();
          u.ctx.moveTo(x, u.bbox.top);
          u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
          u.ctx.stroke();
        }
        u.ctx.restore();
      }],
    },
  };
  const plot = new uPlot(options, [[], ...lines.map(() => [])] as uPlot.AlignedData, into);
  const sized = new ResizeObserver(() => plot.setSize({ width: Math.max(into.clientWidth, 100), height: 150 }));
  sized.observe(into);
  return {
    set: (data) => plot.setData(data as uPlot.AlignedData),
    end: () => {
      sized.disconnect();
      plot.destroy();
    },
  };
}
