// The live stream: one for each page. It says that the server is there, how its disk does, and what
// happens in the queue that is shown.

import { computed, effect, signal } from "@preact/signals";
import type { Bye, Hello, Tick } from "./api.gen";
import { connect, Failed, request } from "./api";
import { answered, epoch, now, paused, route, server, unanswered, visible } from "./state";

export interface Point {
  at: number; // milliseconds
  tick: Tick | null; // null where the stream had a gap
}

const pointsMax = 300;
const silentMax = 4000; // a tick comes each second
const waitMax = 3000; // so the numbers are right within 5 s of the server's return

export const points = signal<Point[]>([]); // of the queue that is shown, the latest last
export const latest = signal<Tick | null>(null);
export const restarts = signal<number[]>([]); // when another instance of the server answered
export const streaming = signal(false);
export const polling = signal(false); // the server answers, but no stream comes: a proxy holds it, or there are too many

// watched is the queue that is shown, empty for none.
export const watched = computed(() => (route.value.path[0] === "q" ? route.value.path[1] ?? "" : ""));

// stalled is how long no commit has reached the disk, when that is long. [CONSOLE-9]
export const stalled = computed(() => {
  const t = latest.value;
  if (!t || !streaming.value || t.silenceMs < 10_000) return 0;
  return t.silenceMs + Math.max(0, now.value - Date.parse(t.at));
});

let instance = "";
let tries = 0;

// events reads a stream of server-sent events until it ends.
async function events(stream: ReadableStream<Uint8Array>, seen: (name: string, data: string) => void) {
  const reader = stream.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>).getReader();
  for (let rest = ""; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop() ?? "";
    for (const part of parts) {
      const name = /^event: (.*)$/m.exec(part)?.[1] ?? "";
      const data = /^data: (.*)$/m.exec(part)?.[1] ?? "";
      if (name && data) seen(name, data);
    }
  }
}

function add(point: Point): void {
  points.value = [...points.value.slice(1 - pointsMax), point];
}

// follow opens a stream and returns when it has ended: after how many milliseconds to come again.
async function follow(queue: string, stop: AbortSignal): Promise<number> {
  const own = new AbortController();
  stop.addEventListener("abort", () => own.abort());
  let silent = setTimeout(() => own.abort(), silentMax);
  let retry = -1, first = true; // the first tick counts nothing yet
  try {
    const response = await request("/live", { queues: queue }, { signal: own.signal });
    await events(response.body!, (name, data) => {
      clearTimeout(silent);
      silent = setTimeout(() => own.abort(), silentMax);
      answered();
      streaming.value = true;
      polling.value = false;
      tries = 0;
      switch (name) {
        case "hello": {
          const hello: Hello = JSON.parse(data);
          if (instance && instance !== hello.instance) restarts.value = [...restarts.value, Date.now()];
          instance = hello.instance;
          break;
        }
        case "tick": {
          if (paused.value) break;
          const tick: Tick = JSON.parse(data);
          latest.value = tick;
          if (!first) add({ at: Date.parse(tick.at), tick });
          first = false;
          break;
        }
        case "bye":
          retry = (JSON.parse(data) as Bye).retryMs;
      }
    });
  } catch (e) {
    if (e instanceof Failed && e.status === 429) retry = 10_000; // as many streams as may be
  } finally {
    clearTimeout(silent);
  }
  return retry;
}

// keep follows the server for as long as the page is shown, and begins again when a stream ends.
async function keep(queue: string, stop: AbortSignal): Promise<void> {
  points.value = [];
  for (let again = false; !stop.aborted; again = true) {
    if (again) {
      const late = setTimeout(unanswered, 1000);
      try {
        await connect(); // the numbers of before are read again when the server is back
        epoch.value++;
        polling.value ||= tries > 1;
      } catch { // it is away
        polling.value = false;
      }
      clearTimeout(late);
    }
    const retry = await follow(queue, stop);
    if (stop.aborted) return;
    streaming.value = false;
    if (retry >= 10_000) polling.value = true;
    else if (!polling.value) unanswered();
    add({ at: Date.now(), tick: null });
    const wait = Math.min(500 * 2 ** tries++, waitMax) * (0.75 + Math.random() / 2);
    await new Promise((done) => setTimeout(done, retry >= 10_000 ? retry : wait));
  }
}

export function startLive(): void {
  const known = computed(() => server.value !== null);
  effect(() => {
    if (!visible.value || !known.value) return;
    const stop = new AbortController();
    void keep(watched.value, stop.signal);
    return () => {
      stop.abort();
      streaming.value = false;
    };
  });
}
