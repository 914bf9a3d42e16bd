// The server, the caller, and the cluster.

import { Fragment, h } from "preact";
import { useState } from "preact/hooks";
import type { Member, Setting, SettingList, Status } from "../api.gen";
import { useGet } from "../api";
import { cmd, useCommands } from "../commands";
import { age, bytes, count } from "../format";
import { latest, polling, restarts, stalled, streaming } from "../live";
import { Badge, Empty, Fact, T, Table, Time, useTitle, Wait } from "../parts";
import { has, lost, server } from "../state";

export function Health() {
  useTitle("Health");
  const d = server.value, tick = polling.value ? null : latest.value;
  const clustered = d?.features.includes("cluster") ?? false;
  const settings = has("settings", "tenaq:ViewSettings");
  useCommands([cmd("Check the disk, the clock, the endpoint and the queues", "tenaq", "doctor"), { ...cmd("Check that the server on this machine is ready", "tenaq", "health"), local: true },
    ...(settings ? [cmd("Print the settings of the server", "tenaq", "config", "running")] : []), cmd("Copy all data into a file", "tenaq", "backup", "tenaq.backup"),
    ...(clustered ? [cmd("Show the cluster", "tenaq", "cluster", "status")] : [])]);
  if (!d) return <Empty>Waiting for the server…</Empty>;
  return <Fragment>
    <h1>Health</h1>
    <p>{lost.value ? <Badge kind="bad">not connected</Badge> : stalled.value ? <Badge kind="bad">the disk does not answer</Badge>
      : streaming.value ? <Badge kind="good">connected, commits reach the disk</Badge> : <Badge kind="idle">{polling.value ? "connected, without a live stream" : "connecting"}</Badge>}</p>
    <dl class="facts">
      <Fact name="Server">tenaq <T text={d.version} /></Fact>
      {tick && <Fact name="Last commit on disk" title="There is one at least every five seconds">{tick.silenceMs < 1000 ? "less than a second ago" : age(tick.silenceMs) + " ago"}</Fact>}
      <Fact name="Clock difference" title="Between the server and this browser, measured when the page connected">{tick ? difference(Date.parse(tick.at)) : "–"}</Fact>
      {restarts.value.length > 0 && <Fact name="Restarts since the page was opened">{restarts.value.map((at) => <Fragment key={at}><Time at={at} /> </Fragment>)}</Fact>}
      <Fact name="Account"><T text={d.caller.account} /></Fact>
      <Fact name="You are"><T text={d.caller.user ?? d.caller.key ?? "not signed in: the server has no keys"} /></Fact>
      {d.caller.expires && <Fact name="Access ends"><Time at={d.caller.expires} /></Fact>}
      <Fact name="Parts of the API"><T text={d.features.join(", ")} /></Fact>
    </dl>
    {clustered ? <Cluster /> : <Fragment><h2>Cluster</h2><Empty>This is a single server. A cluster of three servers survives the loss of one: <code>tenaq cluster --help</code>.</Empty></Fragment>}
    {settings && <Settings clustered={clustered} />}
    <p class="dim">The admin address has more for monitoring systems: <code>/livez</code>, <code>/readyz</code> and <code>/metrics</code>.</p>
  </Fragment>;
}

function difference(at: number): string {
  const ms = Math.abs(Date.now() - at);
  return ms < 2500 ? "less than 2.5 s" : age(ms);
}

// Settings are read when they are unfolded. Those that were set come first. [V1-24]
function Settings({ clustered }: { clustered: boolean }) {
  const [open, set] = useState(false);
  const asked = useGet<SettingList>(open ? "/settings" : null);
  const usual = (s: Setting) => s.origin === "default";
  return <Fragment><h2>Settings</h2><details class="numbers" onToggle={(e) => set(e.currentTarget.open)}><summary>Values{clustered && " of the leader"}, and where they come from</summary>
    {open && <Wait of={asked}>{({ settings }) => <Table<Setting> name="Settings" rows={[...settings.filter((s) => !usual(s)), ...settings.filter(usual)]} id={(s) => s.name} columns={[
      { name: "Setting", cell: (s) => <code><T text={s.name} /></code> },
      { name: "Value", wide: true, cell: (s) => <T text={s.value || "–"} /> },
      { name: "From", cell: (s) => usual(s) ? <span class="dim">default</span> : <T text={s.origin} /> },
    ]} />}</Wait>}</details></Fragment>;
}

function Cluster() {
  const asked = useGet<Status>("/cluster", {}, 2000);
  return <Fragment><h2>Cluster</h2><Wait of={asked}>{(c) => <Fragment>
    {!c.leader && <div class="problem" role="alert">There is no leader: requests wait until one is elected.</div>}
    <Table<Member> name="Nodes" rows={c.members} id={(m) => m.id} columns={[
      { name: "Node", cell: (m) => <span class="mono"><T text={m.id.slice(0, 8)} /></span> },
      { name: "Role", cell: (m) => <Badge kind={m.role === "leader" ? "good" : m.trouble ? "bad" : "idle"}>{m.role}</Badge> },
      { name: "Address", wide: true, cell: (m) => <T text={m.address} /> },
      { name: "Behind", number: true, cell: (m) => count(m.lag) },
      { name: "Free disk", number: true, cell: (m) => bytes(m.freeBytes) },
      { name: "Version", cell: (m) => <T text={m.version} /> },
      { name: "Trouble", cell: (m) => <T text={m.trouble ?? ""} /> },
    ]} /><p class="dim">This page is from node <T text={c.node.slice(0, 8)} />, term {c.term}.</p></Fragment>}</Wait></Fragment>;
}
