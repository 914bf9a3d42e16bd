// The frame around all screens: search, places, what the connection does, and who is asked.

import { Fragment, h, render, type ComponentType } from "preact";
import { useEffect } from "preact/hooks";
import type { AlarmList, OutboxList, QueueList, TaskList } from "./api.gen";
import { Dialogs } from "./act";
import { connect, get, signOut, useGet } from "./api";
import { CommandPanel, commandsOpen } from "./commands";
import { age, clock, count } from "./format";
import { KeysPanel, keysOpen, startKeys } from "./keys";
import { inside, more } from "./lazy";
import { latest, polling, stalled, startLive, streaming } from "./live";
import { Empty, T } from "./parts";
import { epoch, go, has, lastSeen, link, lost, lostSince, now, paused, refused, route, scheme, server, zone } from "./state";
import { Overview } from "./screens/overview";
import { QueuePage } from "./screens/queue";
import { SignIn } from "./screens/signin";

// screens are the pages, by the first part of their addresses.
const screens: Record<string, ComponentType> = {
  "": Overview, q: QueuePage, m: inside((s) => s.MessagePage), dead: inside((s) => s.DeadQueues), trace: inside((s) => s.TracePage),
  tasks: more((s) => s.Tasks), redrivers: more((s) => s.Redrivers), claims: more((s) => s.Claims), outbox: more((s) => s.Outboxes),
  log: more((s) => s.Log), alarms: more((s) => s.Alarms), health: more((s) => s.Health), keys: more((s) => s.AccessKeys),
};

const id = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

function Search() {
  // An id is one of work, and so is a text that no queue has in its name.
  const found = async (e: Event) => {
    e.preventDefault();
    const input = document.getElementById("search") as HTMLInputElement;
    const text = input.value.trim();
    input.blur();
    if (id.test(text)) return go(link(["trace", text.toLowerCase()]));
    const queues = text ? await get<QueueList>("/queues", { text, limit: 1 }).catch(() => null) : null;
    go(!text || !queues || queues.snapshot!.matched > 0 ? link([], { text }) : link(["trace", text]));
  };
  return <form role="search" aria-label="Everything" class="find" onSubmit={found}>
    <input id="search" type="search" aria-label="Search a queue by name, or work by its key or the id of a message" placeholder="Queue, key or message id   /" autocomplete="off" spellcheck={false} />
  </form>;
}

function Screen() {
  const at = route.value.path[0] ?? "", Page = Object.hasOwn(screens, at) && screens[at];
  return Page ? <Page /> : <Empty><h1>There is no such page</h1><p><a href="#/">Go to the overview</a></p></Empty>;
}

function Places() {
  const can = (feature: string) => server.value?.features.includes(feature) ?? false;
  const alarms = useGet<AlarmList>(can("alarms") ? "/alarms" : null, { state: "ALARM" }, 10_000);
  const tasks = useGet<TaskList>(server.value ? "/tasks" : null, { state: "active", limit: 100 }, 10_000);
  const dead = useGet<QueueList>(server.value ? "/queues" : null, { only: "dead", sort: "visible", desc: true, limit: 100 }, 10_000);
  const outbox = useGet<OutboxList>(has("outbox", "tenaq:ViewOutbox") ? "/outbox" : null, {}, 60_000);
  const at = route.value.path[0] ?? "";
  const place = (to: string, name: string, n = 0, bad = false) => <a href={"#/" + to} aria-current={at === to || (at === "q" && to === "") ? "page" : undefined}>
    {name}{n > 0 && <span class={"n" + (bad ? " bad" : "")}>{count(n)}</span>}</a>;
  const raised = alarms.data?.alarms.filter((a) => !a.silencedUntil && !a.acknowledged).length ?? 0;
  return <nav class="places" aria-label="Places">
    {place("", "Overview")}
    {place("dead", "Dead letters", dead.data?.queues.filter((q) => q.visible + q.inFlight > 0).length ?? 0)}
    {place("tasks", "Tasks", tasks.data?.tasks.length ?? 0)}
    {has("redrivers", "tenaq:ViewRedrivers") && place("redrivers", "Redrivers")}
    {has("claims", "tenaq:ListClaims") && place("claims", "Claims")}
    {outbox.data && outbox.data.outboxes.length > 0 && place("outbox", "Outbox", outbox.data.outboxes.reduce((n, o) => n + (o.parked ?? 0), 0), true)}
    {can("alarms") && place("alarms", "Alarms", raised, true)}
    {place("log", "Action log")}{!server.value?.open && has("keys", "tenaq:ViewKeys") && place("keys", "Access keys")}{place("health", "Health")}
  </nav>;
}

// Banner says when the numbers are not those of now. [CONSOLE-9]
function Banner() {
  if (lost.value) return <div class="banner bad" role="alert"><b>Not connected for {age(now.value - lostSince.value)}.</b> The numbers are from {clock(lastSeen.value)}. The page retries automatically.</div>;
  if (stalled.value) return <div class="banner bad" role="alert"><b>No commit has reached the disk for {age(stalled.value)}.</b> Sends are waiting. Check the latency of the disk. <a href="#/health">Health</a></div>;
  if (paused.value) return <div class="banner" role="status"><b>Live updates are paused.</b> <button type="button" class="small" onClick={() => (paused.value = false)}>Resume</button></div>;
  return null;
}

function Connection() {
  const state = lost.value ? ["bad", "not connected"] : paused.value ? ["idle", "paused"] : streaming.value ? ["good", "live"] : polling.value ? ["idle", "polling"] : ["idle", "connecting"];
  return <span class={"connection " + state[0]} title={latest.value && !polling.value ? "latest numbers: " + clock(latest.value.at) : ""}><span aria-hidden="true">●</span> {state[1]}</span>;
}

// Account names the key that the page uses, so that a foreign session is noticed.
function Account() {
  const d = server.value!, person = d.caller.proxyUser;
  const out = (all: boolean) => void signOut(all).catch(() => {});
  return <details class="account"><summary><T text={person ?? d.caller.user ?? d.caller.key ?? ""} /></summary>
    <div class="menu"><p class="dim">Key <T text={d.caller.key ?? ""} />{d.ends && <Fragment>, until {clock(d.ends)}</Fragment>}</p>
      {person ? <p>A proxy has signed you in. Sign out there.</p> : <Fragment><button type="button" class="small" onClick={() => out(false)}>Sign out</button>
        <button type="button" class="small" onClick={() => out(true)}>Sign out everywhere</button></Fragment>}</div></details>;
}

const nextScheme: Record<string, string> = { auto: "light", light: "dark", dark: "auto" };

function App() {
  const d = server.value, at = route.value.path.slice(0, 3).join("/");
  useEffect(() => {
    document.querySelector("main")?.scrollTo?.(0, 0);
    scrollTo(0, 0);
  }, [at]);
  useEffect(() => {
    let stop = false, timer = 0;
    const begin = () => connect().catch(() => {
      if (!stop && !refused.value) timer = setTimeout(begin, 1000);
    });
    void begin();
    return () => {
      stop = true;
      clearTimeout(timer);
    };
  }, []);
  const signIn = !d && refused.value !== "";
  return <Fragment>
    <a class="skip" href="#main" onClick={(e) => { e.preventDefault(); document.getElementById("main")?.focus(); }}>Skip to the content</a>
    <header class="top">
      <a class="brand" href="#/">tenaq</a>
      {d && <Search />}
      <span class="controls">
        {d && <Connection />}
        {d && !d.open && <Account />}
        <button type="button" class="small" title="Times in UTC or in local time (t)" onClick={() => (zone.value = zone.value === "utc" ? "local" : "utc")}>{zone.value === "utc" ? "UTC" : "Local time"}</button>
        <button type="button" class="small" title="Colours: system, light or dark" onClick={() => (scheme.value = nextScheme[scheme.value] ?? "auto")}>{scheme.value === "auto" ? "Auto" : scheme.value === "light" ? "Light" : "Dark"}</button>
      </span>
    </header>
    <Banner />
    <div class="frame">
      {d && <Places />}
      <main id="main" class="page" tabIndex={-1}>{signIn ? <SignIn /> : d ? <Screen /> : <h1>Connecting to the server…</h1>}</main>
    </div>
    <footer class="bottom">
      {d?.readOnly && <span class="tag">read-only</span>}
      {d && <span class="who">tenaq <T text={d.version} /> · <T text={d.caller.account} />{d.caller.user ? <Fragment> · <T text={d.caller.user} /></Fragment> : null}</span>}
      <span class="controls">
        {d && <button type="button" class="small" onClick={() => (commandsOpen.value = true)}><span aria-hidden="true">&gt;_</span> Commands <kbd>c</kbd></button>}
        {d && <button type="button" class="small" onClick={() => epoch.value++}>Refresh <kbd>r</kbd></button>}
        <button type="button" class="small" onClick={() => (keysOpen.value = true)}>Keys <kbd>?</kbd></button>
      </span>
    </footer>
    <Dialogs /><CommandPanel /><KeysPanel />
    <div id="said" class="hidden" role="status" aria-live="polite" />
  </Fragment>;
}

startKeys();
startLive();
const root = document.getElementById("app")!;
root.textContent = ""; // the shell's own words
render(<App />, root);
