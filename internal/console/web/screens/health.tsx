// The server, the caller, and the cluster.

import { Fragment, h } from "preact";
import { useState } from "preact/hooks";
import type { BackupStatus, DiskStatus, Member, ServerStatus, Setting, SettingList, Status } from "../api.gen";
import { useGet } from "../api";
import { cmd, useCommands } from "../commands";
import { age, bytes, clock, count, plural } from "../format";
import { latest, polling, restarts, stalled, streaming } from "../live";
import { Badge, Empty, Fact, Seen, T, Table, Time, useTitle, Wait } from "../parts";
import { has, lost, server } from "../state";

export function Health() {
  useTitle("Health");
  const d = server.value, tick = polling.value ? null : latest.value;
  const clustered = d?.features.includes("cluster") ?? false;
  const settings = has("settings", "tenaq:ViewSettings"), figures = has("status", "tenaq:ViewSettings");
  useCommands([cmd("Check the disk, the clock, the endpoint and the queues", "tenaq", "doctor"), { ...cmd("Check that the server on this machine is ready", "tenaq", "health"), local: true },
    ...(figures ? [cmd("Show the figures of the server", "tenaq", "status")] : []), ...(settings ? [cmd("Print the settings of the server", "tenaq", "config", "running")] : []), cmd("Copy all data into a file", "tenaq", "backup", "tenaq.backup"),
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
    {figures && <Figures clustered={clustered} />}
    {clustered ? <Cluster /> : <Fragment><h2>Cluster</h2><Empty>This is a single server. A cluster of three servers survives the loss of one: <code>tenaq cluster --help</code>.</Empty></Fragment>}
    {settings && <Settings clustered={clustered} />}
    <p class="dim">The admin address has more for monitoring systems: <code>/livez</code>, <code>/readyz</code> and <code>/metrics</code>.</p>
  </Fragment>;
}

function difference(at: number): string {
  const ms = Math.abs(Date.now() - at);
  return ms < 2500 ? "less than 2.5 s" : age(ms);
}

const every = 5000;

const took = (ms?: number): string => ms === undefined ? "–" : ms < 1000 ? `${+ms.toPrecision(2)} ms` : `${+(ms / 1000).toPrecision(2)} s`;

// Figures say how the server does, also while its disk hangs. [V1-25]
function Figures({ clustered }: { clustered: boolean }) {
  const asked = useGet<ServerStatus>("/status", {}, every);
  return <Fragment><h2>Figures{clustered && " of the leader"} <Seen at={asked.at} every={every} /></h2>
    <Wait of={asked}>{(s) => {
      const { commits, turns, requests, memory } = s, others = (s.disk.freeBytes ?? 0) > 1.05 * s.disk.reserveBytes;
      const since = (n: string, at: string) => `${n} since ${clock(at)}`;
      return <Fragment>
        {s.sendsRefused ? <div class="problem" role="alert"><strong>Sends are refused: {others ? "the disk of another node is nearly full." : "free disk space is below the reserve."}</strong> Make room on it: receives and deletes go on.</div>
          : s.disk.near && <p><Badge kind="warn">the disk is nearly full</Badge> {s.disk.reserveBytes > 0 && `Sends are refused when less than ${bytes(s.disk.reserveBytes)} is free.`} Make room on it.</p>}
        <dl class="facts">
          <Fact name="Region"><T text={s.region} /></Fact>
          <Fact name="Started"><Time at={s.started} />, {age(Date.parse(s.now) - Date.parse(s.started))} ago</Fact>
          <Fact name="Sends">{s.sendsRefused ? <Badge kind="bad">refused</Badge> : "accepted"}</Fact>
          <Fact name="Free disk space"><Free d={s.disk} now={Date.parse(s.now)} /></Fact>
          <Fact name="Reserve" title="While less disk space is free, the server refuses sends">{s.disk.reserveBytes ? bytes(s.disk.reserveBytes) : "none"}</Fact>
          <Fact name="Commit time, p50" title={since(`Half of ${plural(commits.count, "commit")} waited at most this long for the disk,`, commits.since)}>{took(commits.p50Ms)}</Fact>
          <Fact name="Commit time, p99" title={since(`99 % of ${plural(commits.count, "commit")} waited at most this long for the disk,`, commits.since)}>{took(commits.p99Ms)}</Fact>
          <Fact name="Requests in one turn, p99" title={since(`99 % of ${plural(turns.count, "turn")} of the writer had at most this many requests,`, turns.since)}>{turns.p99 === undefined ? "–" : count(turns.p99)}</Fact>
          <Fact name="Requests that wait for the writer">{count(requests.waiting)}</Fact>
          <Fact name="Receives that wait for messages">{count(requests.polls)}</Fact>
          <Fact name="Requests refused as too many" title="Answered RequestThrottled since the server started">{count(requests.throttled)}</Fact>
          <Fact name="Memory" title="Resident memory of the process, and the limit of its control group">{memory.residentBytes ? bytes(memory.residentBytes) : "–"}{memory.limitBytes && ` of ${bytes(memory.limitBytes)}`}</Fact>
          <Fact name="Goroutines" title="Tasks inside the process; a number that only grows is a leak">{count(memory.goroutines)}</Fact>
          {s.alarmsJudgedMs !== undefined && <Fact name="Alarms judged" title="At least once a minute">{age(s.alarmsJudgedMs)} ago</Fact>}
          {s.backups && <Fact name="Latest backup" title="Through this server, since it started"><Backup b={s.backups} /></Fact>}
        </dl></Fragment>;
    }}</Wait></Fragment>;
}

// Free is the free space, with its time if the latest look at the disk is old.
function Free({ d, now }: { d: DiskStatus; now: number }) {
  if (d.freeBytes === undefined) return <Fragment>not known</Fragment>;
  return <Fragment>{bytes(d.freeBytes)} of {bytes(d.totalBytes!)}{now - Date.parse(d.at!) > 10_000 && <Fragment> as of <Time at={d.at} /></Fragment>}</Fragment>;
}

const Backup = ({ b }: { b: BackupStatus }) => <Fragment>{b.taken ? <Fragment><Time at={b.taken} />, {bytes(b.bytes ?? 0)}</Fragment> : "none since the start"}{b.running && "; one is being read"}</Fragment>;

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
