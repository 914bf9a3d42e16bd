// The keyboard: single keys for people who are in a hurry. They can be switched off. [WCAG 2.1.4]

import { h } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";
import { commandsOpen } from "./commands";
import { epoch, go, letters, paused, zone } from "./state";
import { say } from "./parts";

export const keysOpen = signal(false);

const places: Record<string, [address: string, name: string]> = {
  o: ["#/", "overview"], d: ["#/dead", "dead letters"], t: ["#/tasks", "tasks"], r: ["#/redrivers", "redrivers"], c: ["#/claims", "claims"], l: ["#/log", "action log"],
  a: ["#/alarms", "alarms"], h: ["#/health", "health"],
};

const list: [string, string][] = [
  ["/", "search"], ...Object.entries(places).map(([key, [, name]]): [string, string] => ["g " + key, name]),
  ["j k", "next, previous row"], ["Enter", "open"], ["Esc", "close, or leave a field"], ["r", "refresh"],
  ["Space", "pause live updates"], ["c", "commands of this screen"], ["t", "UTC or local time"], ["?", "this list"],
];

// move focuses the next row, or the previous one.
function move(step: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("main [data-row]")];
  if (!rows.length) return;
  const at = rows.indexOf(document.activeElement as HTMLElement);
  const to = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + step, 0), rows.length - 1)];
  to.focus();
  to.scrollIntoView({ block: "nearest" });
}

let pending = 0; // the timer that forgets that g was pressed

function pressed(e: KeyboardEvent): void {
  if (e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) return;
  const at = e.target as HTMLElement;
  const typing = at.matches("input, select, textarea");
  if (e.key === "Escape") {
    if (typing) at.blur();
    return;
  }
  if (typing || letters.value !== "on" || document.querySelector("dialog[open]")) return;
  const after = pending;
  clearTimeout(pending);
  pending = 0;
  if (after) {
    const to = places[e.key];
    if (to) go(to[0]);
    return;
  }
  switch (e.key) {
    case "g":
      pending = setTimeout(() => (pending = 0), 1500);
      break;
    case "/":
      document.getElementById("search")?.focus();
      break;
    case "j":
      move(1);
      break;
    case "k":
      move(-1);
      break;
    case "r":
      epoch.value++;
      break;
    case " ":
      if (at.matches("button, a, summary, [role=tab]")) return;
      paused.value = !paused.value;
      say(paused.value ? "Live updates are paused." : "Live updates have resumed.");
      break;
    case "c":
      commandsOpen.value = true;
      break;
    case "t":
      zone.value = zone.value === "utc" ? "local" : "utc";
      break;
    case "?":
      keysOpen.value = true;
      break;
    default:
      return;
  }
  e.preventDefault();
}

export function startKeys(): void {
  addEventListener("keydown", pressed);
}

export function KeysPanel() {
  const dialog = useRef<HTMLDialogElement>(null);
  const open = keysOpen.value;
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return <dialog ref={dialog} class="panel" aria-labelledby="keys-title" onClose={() => (keysOpen.value = false)}>
    <header><h2 id="keys-title">Keys</h2>
      <button type="button" class="small" onClick={() => (keysOpen.value = false)}>Close</button></header>
    <dl class="keys">{list.map(([key, does]) => <div key={key}><dt>{key.split(" ").map((k) => <kbd key={k}>{k}</kbd>)}</dt><dd>{does}</dd></div>)}</dl>
    <label class="check"><input type="checkbox" checked={letters.value === "on"}
      onChange={(e) => (letters.value = e.currentTarget.checked ? "on" : "off")} /> Single-key commands</label>
    <p class="dim"><a href="./licences.txt">Licences of the libraries in this page</a></p>
  </dialog>;
}
