// One queue: its numbers, live charts, where its messages go, settings and tags.

import { Fragment, h } from "preact";
import type { QueueDetail, Took } from "../api.gen";
import { ask, attempt, type Change } from "../act";
import { useGet, type Asked } from "../api";
import { Charts } from "../charts";
import { cmd, same, useCommands, v } from "../commands";
import { age, bytes, count, plural } from "../format";
import { inside } from "../lazy";
import { latest, polling } from "../live";
import { Age, Empty, Fact, Figure, QueueLink, Seen, T, Time, useTitle, Wait } from "../parts";
import { can, link, route } from "../state";

const every = 5000;

const Dead = inside((s) => s.Dead), Groups = inside((s) => s.Groups), History = inside((s) => s.History), Messages = inside((s) => s.Messages);

export function QueuePage() {
  const [, name = "", tab = ""] = route.value.path;
  const asked = useGet<QueueDetail>("/queues/" + encodeURIComponent(name), {}, every);
  const d = asked.data;
  useTitle(name);
  const tabs: [string, string, boolean][] = [["", "Queue", true], ["messages", "Messages", true],
    ["groups", "Groups", d?.fifo ?? name.endsWith(".fifo")], ["dead", d?.deadLettersOf ? "Dead letters" : "Reasons", true],
    ["history", "History", true], ["settings", "Settings", true]];
  return <Fragment>
    <div class="titlebar"><h1><a class="up" href="#/">Queues</a> <span aria-hidden="true" class="dim">/</span> <T text={name} />
      {d?.fifo && <span class="tag">FIFO</span>}{d?.deadLettersOf && <span class="tag">dead-letter queue</span>}
      {d && paused in d.tags && <span class="tag warn">delivery is paused</span>}
      <Seen at={asked.at} every={every} /></h1>{d && <Actions d={d} />}</div>
    <nav class="tabs" aria-label="Parts of the queue">{tabs.filter(([, , has]) => has).map(([to, label]) =>
      <a key={to} href={link(to ? ["q", name, to] : ["q", name])} aria-current={tab === to ? "page" : undefined}>{label}</a>)}</nav>
    {tab === "messages" ? <Messages queue={name} fifo={d?.fifo ?? false} holds={d ? d.visible + d.inFlight + d.delayed : 0} key={name} />
      : tab === "groups" ? <Groups queue={name} key={name} />
        : tab === "dead" ? <Dead queue={name} key={name} />
          : tab === "history" ? <History queue={name} tags={d?.tags} key={name} />
            : tab === "settings" ? <Settings asked={asked} name={name} />
              : <Summary asked={asked} name={name} />}
  </Fragment>;
}

const paused = "tenaq:paused";
const pausing = (queue: string) => same("pause", "Pause delivery", "tenaq", "queue", "pause", v(queue)), resuming = (queue: string) => same("resume", "Resume delivery", "tenaq", "queue", "resume", v(queue));

// Actions are what may be done with the queue. [CONSOLE-15]
function Actions({ d }: { d: QueueDetail }) {
  const is = paused in d.tags;
  const pause: Change = ({ act }) => act("TagQueue", { QueueUrl: d.name, Tags: { [paused]: "true" } }), resume: Change = ({ act }) => act("UntagQueue", { QueueUrl: d.name, TagKeys: [paused] });
  const where: [string[], string] = [["q", d.name], "Show the queue"];
  return <div class="acts">
    {can("sqs:SendMessage") && <button type="button" class={d.deadLettersOf ? "" : "primary"} onClick={() => void ask((c) => <c.Send queue={d.name} fifo={d.fifo} />)}>Send a message</button>}
    {can("sqs:TagQueue", "sqs:UntagQueue") && <button type="button" onClick={() => void (is
      ? attempt(resuming(d.name), resume, { text: `Resumed ${d.name}.`, undo: pause, where }) : attempt(pausing(d.name), pause, { text: `Paused ${d.name}: its messages wait, and still expire.`, undo: resume, where }))}>{is ? "Resume delivery" : "Pause delivery"}</button>}
    {can("sqs:PurgeQueue") && <button type="button" class="danger" onClick={() => void ask((c) => <c.Destroy d={d} purge />)}>Purge…</button>}
    {can("sqs:DeleteQueue") && <button type="button" class="danger" onClick={() => void ask((c) => <c.Destroy d={d} purge={false} />)}>Delete…</button>}
  </div>;
}

function Summary({ asked, name }: { asked: Asked<QueueDetail>; name: string }) {
  const d = asked.data;
  useCommands([
    cmd("Show messages without receiving them", "tenaq", "peek", v(name)),
    pausing(name), resuming(name),
    cmd("Show the settings and the handling times", "tenaq", "queue", "show", v(name)),
    ...(d?.handling.timeoutS ? [cmd("Set the visibility timeout", "tenaq", "queue", "set", v(name), "--attribute", `VisibilityTimeout=${d.handling.timeoutS}`)] : []),
    ...(d?.deadLetters ? [cmd("Group its dead letters by reason", "tenaq", "dead", "list", v(d.deadLetters.queue))] : []),
    ...(d?.deadLettersOf ? [cmd("Move all messages back to where they came from", "tenaq", "move", "start", v(name))] : []),
    cmd("Send a message", "tenaq", "send", v(name), '{"id": 1}'),
  ]);
  return <Wait of={asked}>{(d) => {
    const live = (polling.value ? null : latest.value?.queues[name]?.depth) ?? d;
    const dead = d.deadLetters;
    return <Fragment>
      <div class="figures">
        <Figure name="visible">{count(live.visible)}</Figure>
        <Figure name="in flight">{count(live.inFlight)}</Figure>
        <Figure name="delayed">{count(live.delayed)}</Figure>
        <Figure name="oldest"><Age ms={live.oldestAgeMs} /></Figure>
      </div>
      <Charts queue={name} />
      <Handled d={d} />
      <section class="flow" aria-labelledby="flow"><h2 id="flow">Where messages go</h2>
        <ul>
          {d.deadLettersOf && <li>Dead letters come here from {d.deadLettersOf.map((s, i) => <Fragment key={s}>{i > 0 && ", "}<QueueLink name={s} /></Fragment>)}{d.deadLettersOfMore && " and others"}.</li>}
          {dead ? <li>After {dead.maxReceiveCount ?? "too many"} receives, a message moves to <QueueLink name={dead.queue} tab="dead" />.</li>
            : !d.deadLettersOf && <li>There is no dead-letter queue: a message that keeps failing is received until its retention ends.</li>}
          <li>A message that no consumer deletes expires after {age(1000 * Number(d.attributes.MessageRetentionPeriod))}.</li>
          <li>A received message is hidden for {age(1000 * Number(d.attributes.VisibilityTimeout))}, unless the receive asks for a different time.</li>
        </ul></section>
    </Fragment>;
  }}</Wait>;
}

const short = (ms: number) => ms < 1000 ? `${ms} ms` : ms < 1e4 && ms % 1000 ? `${(ms / 1000).toFixed(1)} s` : age(ms);

const took = (t?: Took) => !t ? "–" : t.ms !== undefined ? short(t.ms) : !t.toMs ? `over ${short(t.fromMs!)}`
  : t.fromMs ? `between ${short(t.fromMs)} and ${short(t.toMs)}` : `at most ${short(t.toMs)}`;

// Handled shows how long consumers take, and what to do when that is too long. [CONSOLE-17]
function Handled({ d }: { d: QueueDetail }) {
  const { messages, late = 0, timeoutS, p50, p95, p99, since, watched } = d.handling, timeout = 1000 * Number(d.attributes.VisibilityTimeout), ms = p99?.ms;
  return <section aria-labelledby="handling"><h2 id="handling">Handling times</h2>
    {timeoutS && <div class="problem" role="alert"><strong>Workers take longer than the visibility timeout: work is done twice.</strong> {timeoutS * 1000 > timeout
      ? <Fragment>Set it to {timeoutS} s or more in the <a href={link(["q", d.name, "settings"])}>settings</a></Fragment> : `Receives ask for less than the queue has: let them ask for ${timeoutS} s or more`}, or let workers extend it while they work.</div>}
    <div class="figures"><Figure name="p50">{took(p50)}</Figure><Figure name="p95">{took(p95)}</Figure><Figure name="p99">{took(p99)}</Figure>
      <Figure name="visibility timeout">{age(timeout)}</Figure></div>
    <p class="dim small">From a receive to its delete: {plural(messages, "message")} since <Time at={since} />
      {ms === undefined ? <Fragment>, when the server started. {watched ? "Deletes are measured from now on." : "Too many other queues are watched to measure this one."}</Fragment>
        : late ? `, ${count(late)} of them deleted when they could be received again.` : ms > timeout ? ". Workers extend the timeout in time." : "."}</p></section>;
}

const seconds = new Set(["VisibilityTimeout", "MessageRetentionPeriod", "DelaySeconds", "ReceiveMessageWaitTimeSeconds", "KmsDataKeyReusePeriodSeconds"]);

function Value({ name, value }: { name: string; value: string }) {
  if (seconds.has(name)) return <Fragment>{age(1000 * Number(value))}{value !== "0" && <span class="dim"> ({value} s)</span>}</Fragment>;
  if (name === "MaximumMessageSize") return <Fragment>{bytes(Number(value))}</Fragment>;
  if (name.endsWith("Timestamp")) return <Time at={Number(value) * 1000} />;
  if (value.startsWith("{")) return <pre><T text={value} /></pre>;
  return <T text={value} />;
}

function Settings({ asked, name }: { asked: Asked<QueueDetail>; name: string }) {
  useCommands([
    cmd("Show the settings", "tenaq", "queue", "show", v(name)),
    cmd("Change a setting", "tenaq", "queue", "set", v(name), "--attribute", "VisibilityTimeout=60"),
    cmd("Set a tag", "tenaq", "queue", "tag", v(name), "team=payments"),
    cmd("Keep a history of messages that have ended", "tenaq", "queue", "tag", v(name), "tenaq:history=7d/1GiB"),
  ]);
  return <Wait of={asked}>{(d) => {
    const settings = Object.entries(d.attributes).filter(([k]) => !k.startsWith("ApproximateNumber")).sort(([a], [b]) => (a < b ? -1 : 1));
    const tags = Object.entries(d.tags).sort(([a], [b]) => (a < b ? -1 : 1));
    return <Fragment>
      <div class="titlebar"><h2>Settings</h2>{can("sqs:SetQueueAttributes") && <button type="button" class="small" onClick={() => void ask((c) => <c.Settings d={d} />)}>Change…</button>}</div>
      <dl class="facts">{settings.map(([k, v]) => <Fact key={k} name={k}><Value name={k} value={v} /></Fact>)}
        <Fact name="URL"><T text={d.url} /></Fact></dl>
      <div class="titlebar"><h2>Tags</h2>{can("sqs:TagQueue") && <button type="button" class="small" onClick={() => void ask((c) => <c.Tag queue={name} />)}>Set a tag…</button>}</div>
      {tags.length === 0 ? <Empty>The queue has no tags.</Empty>
        : <dl class="facts">{tags.map(([k, value]) => <Fact key={k} name={k}>{value === "" ? <span class="dim">(empty)</span> : <T text={value} />}
          {can("sqs:UntagQueue", "sqs:TagQueue") && <Fragment> <button type="button" class="small" aria-label={`Remove the tag ${k}`} onClick={() => void attempt(same("untag", "Remove the tag", "tenaq", "queue", "untag", v(name), v(k)), ({ act }) => act("UntagQueue", { QueueUrl: name, TagKeys: [k] }), { text: `Removed the tag ${k}.`, where: [["q", name, "settings"], "Show the tags"], undo: ({ act }) => act("TagQueue", { QueueUrl: name, Tags: { [k]: value } }) })}>×</button></Fragment>}</Fact>)}</dl>}
    </Fragment>;
  }}</Wait>;
}

