// Tasks that take messages out of queues.

import { Fragment, h } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Task, TaskList } from "../api.gen";
import { ask, attempt, type Change } from "../act";
import { Failed, get, useGet } from "../api";
import { cmd, CommandList, same, useCommands, v } from "../commands";
import { age, count, plural } from "../format";
import { Badge, Choice, Empty, Fact, More, QueueLink, T, Table, Time, useTitle, Wait } from "../parts";
import { can, change, epoch, link, route } from "../state";

const kinds: Record<Task["state"], "good" | "bad" | "warn" | "idle" | "busy"> = {
  RUNNING: "busy", PAUSED: "warn", COMPLETED: "good", CANCELLING: "warn", CANCELLED: "idle", FAILED: "bad",
};
const active = (t: Task) => ["RUNNING", "PAUSED", "CANCELLING"].includes(t.state);
const does = (t: Task) => t.do === "delete" ? "delete" : `${t.do} to ${t.to ? plainName(t.to) : "each message's source"}`;
const plainName = (to: string) => to.slice(to.lastIndexOf(":") + 1);

export function Tasks() {
  const [, id] = route.value.path;
  useTitle("Tasks");
  return id ? <OneTask id={id} key={id} /> : <List />;
}

function List() {
  const state = route.value.query.get("state") ?? "";
  const asked = useGet<TaskList>("/tasks", { state, limit: 50 }, 2000);
  const [more, set] = useState<{ tasks: Task[]; next?: string } | null>(null);
  const [error, fail] = useState("");
  useEffect(() => set(null), [state, epoch.value]);
  useCommands([cmd("List tasks", "tenaq", "task", "list", ...(state ? ["--active"] : [])), cmd("Show what operators did", "tenaq", "task", "log"),
    cmd("Move dead letters back", "tenaq", "dead", "redrive", "orders-dlq", "--text", "timeout")]);
  const further = async (next: string) => {
    try {
      const got = await get<TaskList>("/tasks", { state, limit: 50, after: next });
      set({ tasks: [...(more?.tasks ?? []), ...got.tasks], next: got.next });
    } catch (e) {
      if (e instanceof Failed) fail(e.message);
    }
  };
  return <Fragment>
    <h1>Tasks</h1>
    <div class="filters"><Choice name="Show" value={state} values={[["", "all"], ["active", "in progress"]]} set={(v) => change({ state: v })} /></div>
    {error && <div class="problem" role="alert"><T text={error} /></div>}
    <Wait of={asked}>{(d) => {
      const all = [...d.tasks, ...(more?.tasks ?? [])], next = more ? more.next : d.next;
      return all.length === 0 ? <Empty>{state ? "No task is running." : "No task has run yet. A task moves, parks or deletes messages: tenaq dead redrive, park and delete start one."}</Empty>
        : <Fragment><Table name="Tasks" rows={all} id={(t) => t.id} columns={[
          { name: "Task", cell: (t) => <a data-row href={link(["tasks", t.id])}><T text={t.id} /></a> },
          { name: "State", cell: (t) => <Badge kind={kinds[t.state]}>{t.state.toLowerCase()}</Badge> },
          { name: "Does", cell: (t) => <T text={does(t)} /> },
          { name: "Progress", wide: true, cell: (t) => <Progress t={t} /> },
          { name: "Started", cell: (t) => <Time at={t.started} /> },
          { name: "By", cell: (t) => <T text={t.by ?? ""} /> },
        ]} />{next && <More ask={() => void further(next)}>More tasks</More>}</Fragment>;
    }}</Wait>
  </Fragment>;
}

function Progress({ t }: { t: Task }) {
  const of = t.expected && t.expected >= t.done ? t.expected : 0;
  return <span class="progress">{of > 0 && active(t) && <progress max={of} value={t.done} aria-label={`Progress of ${t.id}`} />}
    <span>{of && t.state !== "COMPLETED" ? `${count(t.done)} of about ${plural(of, "message")}` : plural(t.done, "message")}{t.skipped ? `, ${count(t.skipped)} had to stay` : ""}</span>{t.reason && <span class="dim"><T text={t.reason} /></span>}</span>;
}

// left says how long a task with a rate takes still.
function left(t: Task): string {
  const rest = (t.expected ?? 0) - t.done;
  return t.state === "RUNNING" && t.rate && rest > 0 ? `about ${age((1000 * rest) / t.rate)} left` : "";
}

const hold = (t: Task) => t.state === "PAUSED" ? same("task-resume", "Resume it", "tenaq", "task", "resume", v(t.id)) : same("task-pause", "Pause it", "tenaq", "task", "pause", v(t.id));
const cancel = (t: Task) => same("task-cancel", "Cancel it: what it moved stays moved", "tenaq", "task", "cancel", v(t.id));
const steering = (t: Task) => [hold(t), cmd("Change its rate", "tenaq", "task", "rate", v(t.id), "50"), cancel(t)];

// Steer pauses, resumes and cancels a task, and changes its rate. [CONSOLE-15]
function Steer({ t, again }: { t: Task; again(): void }) {
  const to = (what: string): Change => ({ post }) => post(`/tasks/${encodeURIComponent(t.id)}/${what}`, {}).then(again);
  const held = t.state === "PAUSED";
  const where: [string[], string] = [["tasks", t.id], "Show the task"];
  return <div class="acts">
    {t.state !== "CANCELLING" && <button type="button" onClick={() => void (held ? attempt(hold(t), to("resume"), { text: "Resumed the task.", undo: to("pause"), where })
      : attempt(hold(t), to("pause"), { text: "Paused the task.", undo: to("resume"), where }))}>{held ? "Resume" : "Pause"}</button>}
    <button type="button" onClick={() => void ask((c) => <c.Rate t={t} />)}>Change the rate…</button>
    {t.state !== "CANCELLING" && <button type="button" class="danger" onClick={() => void attempt(cancel(t), to("cancel"), { text: "Cancelled the task: what it has done stays." })}>Cancel the task</button>}
  </div>;
}

function OneTask({ id }: { id: string }) {
  const asked = useGet<Task>("/tasks/" + encodeURIComponent(id), {}, 1000);
  const t = asked.data;
  useCommands([cmd("Watch the task", "tenaq", "task", "watch", v(id)), ...(t && active(t) ? steering(t) : [])]);
  return <Fragment>
    <h1><a class="up" href="#/tasks">Tasks</a> <span aria-hidden="true" class="dim">/</span> <T text={id} /></h1>
    <Wait of={asked}>{(t) => <Fragment>
      <p><Badge kind={kinds[t.state]}>{t.state.toLowerCase()}</Badge> <Progress t={t} />{left(t) && <span class="dim"> · {left(t)}</span>}</p>
      {active(t) && can("tenaq:ManageTasks") && <Steer t={t} again={asked.again} />}
      {t.reason && <div class="problem"><T text={t.reason} /></div>}
      <dl class="facts">
        <Fact name="Does"><T text={does(t)} /></Fact><Fact name="Takes from"><QueueLink name={t.queue} /></Fact>
        <Fact name="Which messages">{t.filter ? <pre><T text={JSON.stringify(t.filter, null, 1)} /></pre> : "all"}</Fact>
        <Fact name="Rate">{t.rate ? `${count(t.rate)} per second` : "no limit"}</Fact>
        {t.order && <Fact name="Order">{t.order} first</Fact>}
        {t.delayMs ? <Fact name="Delay of each message">{age(t.delayMs)}</Fact> : null}
        {t.edit && <Fact name="Changes in each message"><pre><T text={JSON.stringify(t.edit, null, 1)} /></pre></Fact>}
        {t.limit ? <Fact name="At most">{plural(t.limit, "message")}</Fact> : null}
        <Fact name="Started"><Time at={t.started} /></Fact>{t.ended && <Fact name="Ended"><Time at={t.ended} /></Fact>}
        {t.by && <Fact name="By"><T text={t.by} /></Fact>}{t.note && <Fact name="Note"><T text={t.note} /></Fact>}
        {t.sqs && <Fact name="Started with">StartMessageMoveTask</Fact>}
      </dl>
      {active(t) && <CommandList list={steering(t)} />}
    </Fragment>}</Wait>
  </Fragment>;
}
