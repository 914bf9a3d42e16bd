// Alarms: what is wrong, since when, and what to do about it.

import { Fragment, h } from "preact";
import type { AlarmList, ChangeList, ShownAlarm, Silence } from "../api.gen";
import { ask, attempt, type Change, endSilence, silenceAgain } from "../act";
import { useGet } from "../api";
import { cmd, line, same, useCommands, v } from "../commands";
import { age, plural } from "../format";
import { Badge, Choice, Copy, Empty, QueueLink, T, Table, Time, useTitle, Wait } from "../parts";
import { can, change, link, now, route } from "../state";

const rank = (a: ShownAlarm) => (a.state !== "ALARM" ? 2 : a.silencedUntil || a.acknowledged ? 1 : 0);

export function Alarms() {
  useTitle("Alarms");
  const queue = route.value.query.get("queue") ?? "", state = route.value.query.get("state") ?? "";
  const asked = useGet<AlarmList>("/alarms", { state }, 5000);
  const past = useGet<ChangeList>("/alarms/history", {}, 10_000);
  useCommands([cmd("Show the alarms", "tenaq", "alarms", ...(state ? ["--state", state] : [])), cmd("Show the history of the alarms", "tenaq", "alarms", "history"),
    cmd("Silence the alarms of a queue", "tenaq", "alarms", "silence", v((queue || "orders") + "/*"), "--for", "2h", "--reason", "moving the database")]);
  return <Fragment>
    <h1>Alarms</h1>
    <div class="filters"><Choice name="State" value={state} set={(v) => change({ state: v })}
      values={[["", "all"], ["ALARM", "in alarm"], ["OK", "OK"], ["INSUFFICIENT_DATA", "without data"]]} />
      {queue && <a href={link(["alarms"])}>Show the alarms of all queues</a>}</div>
    <Wait of={asked}>{(d) => {
      const all = d.alarms.filter((a) => !queue || a.queue === queue).sort((a, b) => rank(a) - rank(b) || (a.since < b.since ? 1 : -1));
      return <Fragment>
        {all.length === 0 && <Empty><Badge kind="good">No alarm</Badge> <p>Built-in alarms are listed here while they are raised, and for a while afterwards.</p></Empty>}
        <ul class="alarms">{all.map((a) => <One key={a.name} a={a} />)}</ul>
        {d.silences.length > 0 && <Fragment><h2>Silences</h2><Table name="Silences" rows={d.silences} id={(s) => s.match} columns={[
          { name: "Match", cell: (s) => <T text={s.match} /> }, { name: "Until", cell: (s) => <Time at={s.until} /> }, { name: "Reason", wide: true, cell: (s) => <T text={s.reason ?? ""} /> },
          ...(can("tenaq:SilenceAlarms") ? [{ name: "End", cell: (s: Silence) => <button type="button" class="small" aria-label={`End the silence of ${s.match}`} onClick={() => void attempt(same("end-silence", "End the silence", "tenaq", "alarms", "silence", v(s.match), "--end"), endSilence(s.match), { text: `Ended the silence of ${s.match}.`, undo: silenceAgain(s), where: [["alarms"], "Show the alarms"] })}>End</button> }] : [])]} /></Fragment>}
      </Fragment>;
    }}</Wait>
    {past.data && past.data.changes.length > 0 && <Fragment><h2>Changes</h2>
      <Table name="Changes of alarms" rows={past.data.changes.filter((c) => !queue || c.queue === queue).reverse().slice(0, 200)} id={(c) => c.alarm + c.at + c.state} columns={[
        { name: "Time", cell: (c) => <Time at={c.at} /> }, { name: "Alarm", cell: (c) => <T text={c.alarm} /> },
        { name: "State", cell: (c) => <Badge kind={c.state === "ALARM" ? "bad" : c.state === "OK" ? "good" : "idle"}>{c.state}</Badge> },
        { name: "Reason", wide: true, cell: (c) => <T text={c.reason} /> }]} /></Fragment>}
  </Fragment>;
}

function One({ a }: { a: ShownAlarm }) {
  const raised = a.state === "ALARM", note = a.acknowledged ? "Note…" : "Acknowledge with a note…";
  const it = a.acknowledged ? same("end-acknowledgement", "End the acknowledgement", "tenaq", "alarms", "ack", v(a.name), "--end") : same("acknowledge", "Acknowledge the alarm", "tenaq", "alarms", "ack", v(a.name));
  const ack = raised ? line(it) : null;
  const was = a.acknowledgement?.note;
  const acknowledge: Change = ({ post }) => post("/alarms/acknowledge", { alarm: a.name, ...(was ? { note: was } : {}) }), end: Change = ({ post }) => post("/alarms/acknowledge", { alarm: a.name, end: true });
  const where: [string[], string] = [["alarms"], "Show the alarms"];
  const shown = [...new Set([...(a.commands ?? []), ...(ack ? [ack] : [])])];
  return <li class={"alarmbox" + (raised && !a.silencedUntil && !a.acknowledged ? " raised" : "")}>
    <div class="bar"><Badge kind={raised ? "bad" : a.state === "OK" ? "good" : "idle"}>{a.state === "INSUFFICIENT_DATA" ? "no data" : a.state}</Badge>
      <b><T text={a.name} /></b>{a.queue && <QueueLink name={a.queue} tab={/\/dead-letter[^/]*$/.test(a.name) ? "dead" : undefined} />}
      <span class="dim">for {age(now.value - Date.parse(a.since))}, since <Time at={a.since} /></span>
      {a.acknowledged && <span class="tag">acknowledged</span>}{a.silencedUntil && <span class="tag">silenced until <Time at={a.silencedUntil} /></span>}</div>
    {raised && <div class="acts">
      {can("tenaq:AcknowledgeAlarm") && <button type="button" class="small" aria-label={(a.acknowledged ? "End the acknowledgement of " : "Acknowledge ") + a.name} onClick={() => void (a.acknowledged
        ? attempt(it, end, { text: `Ended the acknowledgement of ${a.name}: it sends reminders again.`, undo: acknowledge, where })
        : attempt(it, acknowledge, { text: `Acknowledged ${a.name}: no reminder until its state changes.`, undo: end, where }))}>{a.acknowledged ? "End the acknowledgement" : "Acknowledge"}</button>}
      {can("tenaq:AcknowledgeAlarm") && <button type="button" class="small" aria-label={`${note} ${a.name}`} onClick={() => void ask((c) => <c.AckNote a={a} />)}>{note}</button>}
      {!a.silencedUntil && can("tenaq:SilenceAlarms") && <button type="button" class="small" aria-label={`Silence… ${a.name}`} onClick={() => void ask((c) => <c.Quiet match={a.name} />)}>Silence…</button>}</div>}
    {a.acknowledgement?.note && <p class="why">Note by <T text={a.acknowledgement.by ?? ""} />, <Time at={a.acknowledgement.at} />: <T text={a.acknowledgement.note} /></p>}
    {a.description && <p class="dim"><T text={a.description} /></p>}
    <p class="why"><T text={a.reason} /></p>
    {shown.length > 0 && <ul class="commands">{shown.map((text) =>
      <li key={text}><span class="line"><code><T text={text} /></code><Copy text={text} what="the command" /></span></li>)}</ul>}
    {a.page && <p>What to do: {/^https?:\/\//.test(a.page) ? <a href={a.page} target="_blank" rel="noopener noreferrer"><T text={a.page} /></a> : <T text={a.page} />}</p>}
    {a.actions.length > 0 && <p class="dim">{plural(a.actions.length, "action")}: <T text={a.actions.join(", ")} /></p>}
  </li>;
}
