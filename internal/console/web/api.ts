// Requests to /v1, relative to the page: there is no base path to configure.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Problem, Session, TaskCount } from "./api.gen";
import { answered, epoch, paused, proof, refused, server, unanswered, visible } from "./state";

export const base = new URL("../v1", location.href.split("#")[0]).href;

// Failed is an answer that is no success, or no answer: status 0.
export class Failed extends Error {
  constructor(readonly status: number, readonly code: string, message: string) {
    super(message);
  }
}

export type Query = Record<string, string | number | boolean | undefined>;

function address(path: string, query: Query = {}): string {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "" && value !== false) q.set(name, value === true ? "1" : String(value));
  }
  const text = q.toString();
  return base + path + (text ? "?" + text : "");
}

// request asks the server. It never goes to another address.
export async function request(path: string, query?: Query, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (proof.value) headers.set("Tenaq-Session", proof.value);
  let response: Response;
  try {
    response = await fetch(address(path, query), {
      ...init, headers, credentials: "same-origin", cache: "no-store", redirect: "error",
    });
  } catch (e) {
    if (!init.signal?.aborted) unanswered();
    throw new Failed(0, "NoAnswer", "The server does not answer.");
  }
  answered();
  if (response.ok) return response;
  let problem: Partial<Problem> = {};
  try {
    problem = await response.json();
  } catch (e) {
    if (init.signal?.aborted) throw e; // else a proxy answered
  }
  const text = problem.message ?? `The server answered ${response.status}: reload the page.`;
  if (response.status === 401 || /^(Missing|Proxy)/.test(problem.code ?? "")) signedOut(text);
  throw new Failed(response.status, problem.code ?? "", text);
}

export async function get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  const response = await request(path, query, { signal });
  return response.json() as Promise<T>;
}

// signedOut shows the sign-in with the first reason: the requests that are under way at the end of a
// session are refused for having none.
function signedOut(why: string): void {
  proof.value = "";
  server.value = null;
  refused.value ||= why;
}

async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const response = await request(path, {}, {
    method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, signal,
  });
  return response.json() as Promise<T>;
}

// countOf asks what a task would take.
export const countOf = (body: unknown, signal?: AbortSignal) => post<TaskCount>("/tasks/count", body, signal);

// A Sender sends what changes something; act carries out an action of SQS [V1-14]. Only act.tsx uses
// it, so that nothing is changed without the command that does the same. [CONSOLE-15]
export const sender = { post: <T = unknown>(path: string, body: unknown) => post<T>(path, body), act: <T = unknown>(action: string, body: unknown): Promise<T> => post<T>("/do/" + action, body) };
export type Sender = typeof sender;

// signIn begins a session. The secret is sent once and kept nowhere. [CONSOLE-10]
export async function signIn(id: string, secret: string, token: string): Promise<void> {
  const s = await post<Session>("/session", token ? { id, secret, token } : { id, secret });
  proof.value = s.proof ?? "";
  server.value = s;
  refused.value = "";
}

export async function signOut(all: boolean): Promise<void> {
  await request("/session", { all }, { method: "DELETE" });
  signedOut("");
  refused.value = "You have signed out.";
}

// connect asks who the caller is. Without a session that works only if the server needs none.
export async function connect(): Promise<void> {
  try {
    server.value = await get<Session>("/session");
    refused.value = "";
  } catch (e) {
    if (e instanceof Failed && e.status > 0 && !refused.value) refused.value = e.message;
    throw e;
  }
}

export interface Asked<T> {
  data?: T;
  error?: Failed;
  slow: boolean; // no answer for a while
  at: number; // when the data came
  again(): void;
}

const slowAfter = 1500;

// useGet reads a path while its screen is open: at once, when the query changes, when the server has
// come back, and every so many milliseconds. Old data stays until new data is there.
export function useGet<T>(path: string | null, query: Query = {}, every = 0): Asked<T> {
  const key = path === null ? "" : address(path, query);
  const [state, set] = useState<{ key: string; data?: T; error?: Failed; at: number }>({ key, at: 0 });
  const [slow, setSlow] = useState(false);
  const [asked, ask] = useState(0);
  const round = epoch.value;
  const live = visible.value && !paused.value;
  const last = useRef(0);
  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    let timer = 0;
    const read = async () => {
      const late = setTimeout(() => setSlow(true), slowAfter);
      try {
        const data = await get<T>(path, query, stop.signal);
        last.current = Date.now();
        set({ key, data, at: last.current });
      } catch (e) {
        if (stop.signal.aborted) return;
        const error = e instanceof Failed ? e : new Failed(0, "", String(e));
        set((before) => ({ key, data: before.key === key ? before.data : undefined, error, at: before.at }));
      } finally {
        clearTimeout(late);
      }
      setSlow(false);
      if (every && live && !stop.signal.aborted) timer = setTimeout(read, every);
    };
    void read();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [key, round, asked, live && every > 0]);
  const mine = state.key === key;
  return { data: mine ? state.data : undefined, error: mine ? state.error : undefined, slow, at: state.at,
    again: () => ask(asked + 1) };
}

// useLatest passes on the answer to the latest request of a screen. The answer to an earlier one, such
// as one with another filter, would replace it, and never arrives.
export function useLatest() {
  const last = useRef(0);
  return async <T>(answer: Promise<T>): Promise<T> => {
    const own = ++last.current;
    try {
      return await answer;
    } finally {
      if (own !== last.current) await new Promise(() => {});
    }
  };
}

export interface Walk<A> {
  got: A | null; // what was found, also after a stop
  busy: boolean;
  error: string;
  start(): Promise<void>;
  stop(): void;
  reset(): void;
}

// useWalk asks for one part of an answer after another: until the last, until it is stopped, or while
// its screen is open. After each it pauses for six times as long as the server took, so that a
// server that is busy does other work first. [CONSOLE-18]
export function useWalk<A>(part: (before: A | null, signal: AbortSignal) => Promise<[all: A, last: boolean]>): Walk<A> {
  const [got, set] = useState<A | null>(null), [busy, setBusy] = useState(false), [error, fail] = useState("");
  const own = useRef<AbortController | null>(null);
  const stop = () => own.current?.abort();
  useEffect(() => stop, []);
  const start = async () => {
    const { signal } = (own.current = new AbortController());
    setBusy(true);
    fail("");
    try {
      for (let all = got, last = false; !last && !signal.aborted; ) {
        const asked = performance.now();
        [all, last] = await part(all, signal);
        if (signal.aborted) break;
        set(all);
        if (!last) await new Promise((go) => setTimeout(go, 6 * (performance.now() - asked)));
      }
    } catch (e) {
      if (!signal.aborted) fail((e as Error).message);
    }
    if (own.current?.signal === signal) setBusy(false);
  };
  const reset = () => {
    stop();
    own.current = null;
    set(null);
    setBusy(false);
    fail("");
  };
  return { got, busy, error, start, stop, reset };
}
