// The panel with the commands that do the same as the screen.

import { h } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { signal } from "@preact/signals";
import { quote } from "./format";
import { Copy } from "./parts";
import { server } from "./state";

// A Word is one of ours, or a value of users: what begins with a dash there must not become an option.
export type Word = string | { value: string };

export interface Command {
  words: Word[];
  does: string;
  local?: boolean; // it asks no server
}

// A Same is the command that does the same as an action. test/console presses the button of each
// name on one server, runs its command on another one, and compares them. [CONSOLE-15]
export interface Same extends Command {
  name: string;
  unlike?: string; // why no command does the same
}

export const same = (name: string, does: string, ...words: Word[]): Same => ({ name, does, words });

export const v = (value: string): Word => ({ value });

export const commands = signal<Command[]>([]);
export const commandsOpen = signal(false);

// useCommands says which commands belong to the screen.
export function useCommands(list: Command[]): void {
  const key = JSON.stringify(list);
  useEffect(() => {
    commands.value = list;
    return () => {
      commands.value = [];
    };
  }, [key]);
}

// inLedger is where claims are: in the records of the server, or elsewhere.
export const inLedger = (ledger: string, records = "server"): Word[] => [...(ledger && ledger !== "claim/" ? ["--ledger", v(ledger)] : []), "--records", v(records)];

// inRecords is where the records of a redriver are.
export const inRecords = (r: { records: string }): Word[] => ["--records", v(r.records)];

export const cmd = (does: string, ...words: Word[]): Command => ({ does, words });

// endpoint is what commands need to find the server that this page is from.
function endpoint(): string[] {
  const url = location.origin;
  return url === "http://127.0.0.1:9324" ? [] : ["--endpoint-url", url];
}

// line writes a command for a POSIX shell; null if a word cannot be written safely.
export function line(c: Command): string | null {
  const words: string[] = [];
  if ("unlike" in c) return null;
  for (const word of [...c.words, ...(c.local ? [] : endpoint())]) {
    const text = typeof word === "string" ? word : word.value;
    const quoted = quote(text);
    if (quoted === null || (typeof word !== "string" && text.startsWith("-"))) return null;
    words.push(quoted);
  }
  return words.join(" ");
}

export function CommandList({ list }: { list: Command[] }) {
  return <ul class="commands">{list.map((c) => {
    const text = line(c);
    const { name, unlike } = c as Partial<Same>;
    return <li key={c.does + text} data-same={name}><span class="does">{c.does}</span>
      {text === null
        ? <span class="dim">{unlike ?? "A name contains characters that are not safe to copy into a shell."}</span>
        : <span class="line"><code>{text}</code><Copy text={text} what={`the command: ${c.does}`} /></span>}
    </li>;
  })}</ul>;
}

export function CommandPanel() {
  const dialog = useRef<HTMLDialogElement>(null);
  const open = commandsOpen.value;
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return <dialog ref={dialog} class="panel" aria-labelledby="commands-title" onClose={() => (commandsOpen.value = false)}>
    <header><h2 id="commands-title">Commands for this screen</h2>
      <button type="button" class="small" onClick={() => (commandsOpen.value = false)}>Close</button></header>
    <p class="dim">They do the same in a terminal. <code>tenaq dead</code> only says what it would do until you add <code>--yes</code>; other commands that change something do it at once.
      {server.value?.caller.key ? " They sign with your key from the environment." : ""}</p>
    {open && <CommandList list={commands.value} />}
  </dialog>;
}
