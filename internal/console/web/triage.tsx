// What may be done with messages of a queue that are found in one way or another.

import { Fragment, h, type ComponentChildren } from "preact";
import type { Filter } from "./api.gen";
import { ask } from "./act";
import { v, type Word } from "./commands";
import { can } from "./state";

export const editing = ["tenaq:ReplaceMessage", "tenaq:PeekMessages", "sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:SendMessage"];

export const parkingOf = (queue: string) => queue.replace(/(-dlq)?(\.fifo)?$/, "-parking$2");

// flagsOf selects the same messages as a filter.
export function flagsOf(f: Filter): Word[] {
  const flag = (name: string, value?: string | number): Word[] => value === undefined ? [] : [name, v(String(value))];
  return [...flag("--kind", f.kind), ...flag("--id", f.id), ...flag("--text", f.text), ...flag("--group", f.group), ...flag("--min-receives", f.receivesMin),
    ...Object.entries(f.attributes ?? {}).flatMap(([name, value]) => flag("--attribute", `${name}=${value}`))];
}

// Triage is what may be done with the messages that a filter finds, which the buttons call those. What
// says in the title of a dialog which these are. The sample is one that can be edited. [CONSOLE-15]
export function Triage({ queue, filter = {}, what, those = "", primary, sample, children }: {
  queue: string; filter?: Filter; what: string; those?: string; primary?: boolean; sample?: string; children?: ComponentChildren;
}) {
  const taking = ["tenaq:ManageTasks", "tenaq:PeekMessages", "sqs:ReceiveMessage", "sqs:DeleteMessage"], moving = "sqs:SendMessage";
  const go = (verb: "redrive" | "move" | "park" | "delete") => void ask((c) => <c.Selected queue={queue} filter={filter} flags={flagsOf(filter)} what={what} verb={verb} parking={parkingOf(queue)} />);
  const of = those && " " + those;
  const taken = can(...taking), moved = taken && can(moving), edited = sample && can(...editing);
  if (!taken && !edited && !children) return null;
  return <div class="acts triage">
    {children}
    {moved && <Fragment>
      <button type="button" class={primary ? "small primary" : "small"} onClick={() => go("redrive")}>Send{of} back…</button>
      <button type="button" class="small" onClick={() => go("park")}>Park{of}…</button>
      <button type="button" class="small" onClick={() => go("move")}>Move{of} to…</button></Fragment>}
    {edited && <button type="button" class="small" onClick={() => void ask((c) => <c.Edit queue={queue} id={sample} />)}>Edit and send{those ? "" : " one"}…</button>}
    {taken && <span class="apart"><button type="button" class="small danger" onClick={() => go("delete")}>Delete{of}…</button></span>}
  </div>;
}
