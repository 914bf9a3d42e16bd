// What all screens share: the route, preferences, and how the page is connected. The route is the
// whole state of a view, so a link opens the same view elsewhere.

import { computed, signal } from "@preact/signals";
import type { Session } from "./api.gen";

export interface Route {
  path: string[]; // decoded parts, such as ["q", "orders", "messages"]
  query: URLSearchParams;
}

function parse(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const part = (text: string) => {
    try {
      return decodeURIComponent(text);
    } catch {
      return text; // a link that was cut off
    }
  };
  return { path: path.split("/").filter(Boolean).map(part), query: new URLSearchParams(query) };
}

export const route = signal<Route>(parse());
addEventListener("hashchange", () => (route.value = parse()));

// link is the address of a view.
export function link(path: string[], query: Record<string, string | undefined> = {}): string {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) q.set(name, value);
  const text = q.toString();
  return "#/" + path.map(encodeURIComponent).join("/") + (text ? "?" + text : "");
}

export function go(address: string): void {
  location.hash = address;
}

// change gives some parameters of the present view other values, and leaves no step for "back".
export function change(query: Record<string, string | undefined>): void {
  const now = Object.fromEntries(route.value.query);
  history.replaceState(null, "", link(route.value.path, { ...now, ...query }));
  route.value = parse();
}

// Preferences stay in the browser. A secret never does. [CONSOLE-7]
function preference(name: string, fallback: string) {
  let text: string | null = null;
  try {
    text = localStorage.getItem("tenaq." + name);
  } catch { /* the browser keeps nothing */ }
  const s = signal(text ?? fallback);
  s.subscribe((value) => {
    try {
      localStorage.setItem("tenaq." + name, value);
    } catch { /* as above */ }
  });
  return s;
}

export const zone = preference("zone", "local"); // local or utc
export const scheme = preference("scheme", "auto"); // auto, light or dark
export const letters = preference("letters", "on"); // whether single keys are commands
scheme.subscribe((value) => (document.documentElement.dataset.scheme = value));

// The proof of a session is worth nothing without its cookie, which no script can read. Unlike the
// cookie it belongs to this origin alone, its port included. [CONSOLE-11]
export const proof = preference("proof", "");
export const server = signal<Session | null>(null);
export const refused = signal(""); // why the server wants a sign-in

// can reports whether the caller may do something, as far as its key decides. [CONSOLE-14]
export function can(...actions: string[]): boolean {
  const s = server.value;
  return s !== null && !s.readOnly && actions.every((a) => s.allowed.includes(a));
}

// has reports whether the server has a part of the API, and the key of the caller may see it.
export const has = (feature: string, action: string): boolean => (server.value?.features.includes(feature) && server.value.allowed.includes(action)) ?? false;
export const paused = signal(false); // live updates
export const epoch = signal(0); // grows when everything must be read again
export const visible = signal(!document.hidden);
document.addEventListener("visibilitychange", () => (visible.value = !document.hidden));

// The clock of the page, for ages. It stands still while updates are paused.
export const now = signal(Date.now());
setInterval(() => {
  if (!paused.value && visible.value) now.value = Date.now();
}, 1000);

export const lastSeen = signal(0); // when the server answered last
export const lostSince = signal(0); // 0 while it answers
export const lost = computed(() => lostSince.value > 0 && now.value - lostSince.value >= 2500);

export function answered(): void {
  lastSeen.value = Date.now();
  lostSince.value = 0;
}

export function unanswered(): void {
  if (!lostSince.value) lostSince.value = Date.now();
}
