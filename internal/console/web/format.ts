// Numbers, times and texts as people read them.

import { zone } from "./state";

const grouped = new Intl.NumberFormat("en-US");
const oneDigit = new Intl.NumberFormat("en-US", { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const count = (n: number): string => grouped.format(n);

export const plural = (n: number, one: string, many = one + "s"): string => `${count(n)} ${n === 1 ? one : many}`;

export function rate(n: number): string {
  return n === 0 ? "0" : n < 100 ? oneDigit.format(n) : count(Math.round(n));
}

// age writes a duration in its largest unit, and the next one while that is small.
export function age(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  const two = (n: number, unit: string, rest: number, small: string) =>
    n < 10 && rest ? `${n} ${unit} ${rest} ${small}` : `${n} ${unit}`;
  if (s < 60) return `${s} s`;
  if (s < 3600) return two(Math.floor(s / 60), "min", s % 60, "s");
  if (s < 86400) return two(Math.floor(s / 3600), "h", Math.floor(s / 60) % 60, "min");
  return two(Math.floor(s / 86400), "d", Math.floor(s / 3600) % 24, "h");
}

export function bytes(n: number): string {
  if (n < 1024) return `${n} B`;
  for (const unit of ["KiB", "MiB", "GiB"]) {
    n /= 1024;
    if (n < 1024 || unit === "GiB") return (n < 10 ? oneDigit.format(n) : Math.round(n)) + " " + unit;
  }
  return "";
}

const pad = (n: number, width = 2) => String(n).padStart(width, "0");

function parts(t: Date, utc: boolean): [string, string] {
  return utc
    ? [t.toISOString().slice(0, 10), t.toISOString().slice(11, 23)]
    : [`${t.getFullYear()}-${pad(t.getMonth() + 1)}-${pad(t.getDate())}`,
      `${pad(t.getHours())}:${pad(t.getMinutes())}:${pad(t.getSeconds())}.${pad(t.getMilliseconds(), 3)}`];
}

// clock writes a time: without the date if that is today.
export function clock(at: string | number): string {
  const t = new Date(at), utc = zone.value === "utc";
  if (isNaN(+t)) return "";
  const [date, time] = parts(t, utc);
  const short = time.slice(0, 8);
  return date === parts(new Date(), utc)[0] ? short : `${date} ${short}`;
}

// both writes a time in full, in both zones.
export function both(at: string | number): string {
  const t = new Date(at);
  if (isNaN(+t)) return "";
  return `${parts(t, true).join(" ")} UTC\n${parts(t, false).join(" ")} local time`;
}

// hidden are characters that cannot be seen, or that change the order in which others are shown.
const hidden = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

// plain shows the characters of a text that cannot be seen as escapes. [CONSOLE-6]
export function plain(text: string): string {
  return text.replace(hidden, (c) => "\\u" + pad4(c.charCodeAt(0)));
}

const pad4 = (n: number) => n.toString(16).padStart(4, "0");

// quote makes a word for a POSIX shell. A value with characters that cannot be seen or that end a
// line has no word that is safe to copy: null.
export function quote(text: string): string | null {
  if (/[\n\r\t]/.test(text) || text.search(hidden) >= 0) return null;
  if (/^[\w@%+:,./-]+$/.test(text)) return text;
  return "'" + text.replaceAll("'", `'\\''`) + "'";
}
