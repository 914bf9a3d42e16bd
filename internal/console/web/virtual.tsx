// A list of any length, of which only the rows that can be seen are in the page.

import { h, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

// rowHeight and cardHeight are those of the style sheet.
const rowHeight = 32, cardHeight = 68, overscan = 6;
export const narrow = matchMedia("(max-width: 760px)");

export function useNarrow(): boolean {
  const [is, set] = useState(narrow.matches);
  useEffect(() => {
    const changed = () => set(narrow.matches);
    narrow.addEventListener("change", changed);
    return () => narrow.removeEventListener("change", changed);
  }, []);
  return is;
}

// Virtual shows rows of a list. It says which ones are seen, so that their data can be asked for.
export function Virtual({ total, row, seen, head, name }: {
  total: number; name: string; head: ComponentChildren;
  row(index: number, top: number): ComponentChildren; seen(from: number, to: number): void;
}) {
  const height = useNarrow() ? cardHeight : rowHeight;
  const box = useRef<HTMLDivElement>(null);
  const [view, set] = useState({ from: 0, to: 40 });
  const look = () => {
    const b = box.current;
    if (!b) return;
    const from = Math.max(0, Math.floor(b.scrollTop / height) - overscan);
    const to = Math.min(total, Math.ceil((b.scrollTop + b.clientHeight) / height) + overscan);
    set((v) => (v.from === from && v.to === to ? v : { from, to }));
    seen(from, to);
  };
  useEffect(() => {
    look();
    const sized = new ResizeObserver(look);
    sized.observe(box.current!);
    return () => sized.disconnect();
  }, [total, height]);
  const rows: ComponentChildren[] = [];
  for (let i = view.from; i < Math.min(view.to, total); i++) rows.push(row(i, i * height));
  return <div class="virtual" role="table" aria-label={name} aria-rowcount={total + 1}>
    {head}
    <div class="scroller" ref={box} onScroll={look} role="rowgroup">
      <div class="tall" role="presentation" style={{ height: total * height + "px" }}>{rows}</div>
    </div>
  </div>;
}
