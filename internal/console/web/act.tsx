// Dialogs in which something is changed, and what is said afterwards. Every action shows the command
// that does the same. [CONSOLE-15]

import { Fragment, h, type ComponentChildren } from "preact";
import { signal } from "@preact/signals";
import type { Silence } from "./api.gen";
import { sender, type Sender } from "./api";
import { CommandList, type Same } from "./commands";
import { say, T } from "./parts";
import { epoch, link, route } from "./state";

// open is the dialog that is shown; it closes with null. Each dialog has a number, so that none takes
// over what an earlier one was.
export const open = signal<ComponentChildren>(null);
let dialogs = 0;
export const close = () => (open.value = null);

export interface Said {
  text: string;
  bad?: boolean;
  undo?: (send: Sender) => Promise<unknown>;
  where?: [path: string[], label: string]; // it can be taken back later
  link?: [address: string, label: string];
  same?: Same;
}

export type Change<T = unknown> = (send: Sender) => Promise<T>;

const said = signal<Said | null>(null);
let timer = 0;

const undoFor = 10_000, linkFor = 20_000;

// tell says what was done for ten seconds, with a way back if there is one, and then, on another
// page, shows where it can be taken back. [CONSOLE-15]
export function tell(what: Said): void {
  clearTimeout(timer);
  said.value = what;
  say(what.text);
  timer = setTimeout(() => {
    const { undo, where, text } = what;
    const there = where && link(where[0]);
    const here = there !== undefined && link(route.value.path) === there;
    said.value = undo && there && !here ? { text, link: [there, where[1]] } : null;
    if (said.value) timer = setTimeout(() => (said.value = null), linkFor);
  }, undoFor);
}

// attempt carries out what needs no question, and says how it went and which command does the same.
export async function attempt(same: Same | null, what: Change, done: Said): Promise<boolean> {
  try {
    await what(sender);
    epoch.value++;
    tell(same ? { ...done, same } : done);
    return true;
  } catch (e) {
    tell({ text: (e as Error).message, bad: true });
    return false;
  }
}

// carryOut carries out what a dialog has asked about.
export const carryOut = <T,>(what: Change<T>): Promise<T> => what(sender);

export const endSilence = (match: string): Change => (send) => send.post("/alarms/silence", { match, for: "0s" });

// silenceAgain brings back a silence, for as long as it would have lasted.
export const silenceAgain = (s: Silence): Change => (send) => send.post("/alarms/silence",
  { match: s.match, for: `${Math.max(0, Date.parse(s.until) - Date.now())}ms`, ...(s.reason ? { reason: s.reason } : {}) });

export function Toast() {
  const s = said.value;
  if (!s) return null;
  const undo = () => attempt(null, s.undo!, { text: "Undone." });
  return <div class={"toast" + (s.bad ? " bad" : "")} role={s.bad ? "alert" : "status"}><div><T text={s.text} />{s.same && <CommandList list={[s.same]} />}</div>
    {s.link && <a href={s.link[0]}>{s.link[1]}</a>}
    {s.undo && <button type="button" class="small" onClick={undo}>Undo</button>}
    <button type="button" class="small" aria-label="Dismiss" onClick={() => (said.value = null)}>×</button></div>;
}

export function Dialogs() {
  return <Fragment>{open.value}<Toast /></Fragment>;
}

// ask shows a dialog. They are loaded when the first one is wanted.
export async function ask(make: (all: typeof import("./change")) => ComponentChildren): Promise<void> {
  try {
    open.value = <Fragment key={++dialogs}>{make(await import("./change"))}</Fragment>;
  } catch {
    tell({ text: "Part of the console could not be loaded. Reload the page.", bad: true });
  }
}
