// JSON as it is: indented, without changing a digit, an order or an escape. Nothing here goes through
// JSON.parse, which rounds numbers of more than 15 digits. [CONSOLE-6]

export type Kind = "key" | "string" | "number" | "word" | "mark";

export interface Piece {
  kind: Kind;
  text: string;
}

const next = /[ \t\n\r]*(?:([{}[\],:])|("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")|(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)(?![\w.+-])|(true|false|null)(?!\w))/y;

const indentMax = 40; // levels; deeper ones are not indented further
const piecesMax = 20_000; // more are shown as one piece

// indent returns the pieces of a JSON text with line breaks and indentation; null if it is none. The
// pieces without white space between them are the text without white space. It keeps a stack of its own,
// so that the depth of a text has no bound.
export function indent(text: string): Piece[] | null {
  const pieces: Piece[] = [];
  const open: ("{" | "[")[] = [];
  let want: "value" | "first" | "key" | "firstKey" | "colon" | "after" = "value";
  const line = () => "\n" + "  ".repeat(Math.min(open.length, indentMax));
  next.lastIndex = 0;
  for (;;) {
    const at = next.lastIndex;
    const m = next.exec(text);
    if (!m) {
      const end = /^[ \t\n\r]*$/.test(text.slice(at));
      return end && want === "after" && open.length === 0 ? merged(pieces) : null;
    }
    const [, mark, string, number, word] = m;
    const value = want === "value" || want === "first";
    if (string !== undefined && (want === "key" || want === "firstKey")) {
      pieces.push({ kind: "key", text: (want === "firstKey" ? line() : "") + string });
      want = "colon";
    } else if (mark === undefined) {
      if (!value) return null;
      const kind: Kind = string !== undefined ? "string" : number !== undefined ? "number" : "word";
      pieces.push({ kind, text: (want === "first" ? line() : "") + (string ?? number ?? word)! });
      want = "after";
    } else if (mark === "{" || mark === "[") {
      if (!value) return null;
      pieces.push({ kind: "mark", text: (want === "first" ? line() : "") + mark });
      open.push(mark);
      want = mark === "{" ? "firstKey" : "first";
    } else if (mark === "}" || mark === "]") {
      const empty = want === (mark === "}" ? "firstKey" : "first");
      if (open.at(-1) !== (mark === "}" ? "{" : "[") || !(empty || want === "after")) return null;
      open.pop();
      pieces.push({ kind: "mark", text: (empty ? "" : line()) + mark });
      want = "after";
    } else if (mark === ",") {
      if (want !== "after" || open.length === 0) return null;
      pieces.push({ kind: "mark", text: "," + line() });
      want = open.at(-1) === "{" ? "key" : "value";
    } else {
      if (want !== "colon") return null;
      pieces.push({ kind: "mark", text: ": " });
      want = "value";
    }
  }
}

function merged(pieces: Piece[]): Piece[] {
  if (pieces.length <= piecesMax) return pieces;
  return [{ kind: "mark", text: pieces.map((p) => p.text).join("") }];
}

// hex shows bytes as other tools do: offset, bytes, characters.
export function hex(text: string): string {
  const bytes = new TextEncoder().encode(text);
  const lines: string[] = [];
  for (let i = 0; i < bytes.length; i += 16) {
    const row = [...bytes.subarray(i, i + 16)];
    lines.push(i.toString(16).padStart(8, "0") + "  " +
      row.map((b) => b.toString(16).padStart(2, "0")).join(" ").padEnd(48) + " " +
      row.map((b) => (b > 31 && b < 127 ? String.fromCharCode(b) : ".")).join(""));
  }
  return lines.join("\n");
}
