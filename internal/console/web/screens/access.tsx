// The access keys of the server: what each may do, and when it was used last. [V1-23]

import { Fragment, h } from "preact";
import type { AccessKey, KeyList } from "../api.gen";
import { useGet } from "../api";
import { cmd, useCommands } from "../commands";
import { age } from "../format";
import { Badge, Empty, Seen, T, Table, Time, useTitle, Wait } from "../parts";
import { now, server } from "../state";

const every = 5000, soon = 14 * 86_400_000; // a key that expires so soon is marked

export function AccessKeys() {
  useTitle("Access keys");
  const asked = useGet<KeyList>("/keys", {}, every);
  useCommands([cmd("List the keys with their latest use", "tenaq", "keys"), cmd("Make a short-lived token of your key, for curl", "tenaq", "token")]);
  return <Fragment>
    <h1>Access keys<Seen at={asked.at} every={every} /></h1>
    <Wait of={asked}>{(list) => list.open ? <Empty><h2>This server has no keys</h2>
      <p>Every client that reaches it may do everything. To require signed requests, put keys into a file and start the server with <code>tenaq serve --credentials keys.json</code>.</p></Empty>
      : <Fragment>
        <Table<AccessKey> name="Access keys" rows={list.keys} id={(k) => k.id} columns={[
          { name: "Key", cell: (k) => <code><T text={k.id} /></code> },
          { name: "User", cell: (k) => <Fragment><T text={k.user} />{k.id === server.value?.caller.key && <span class="dim"> (you)</span>}</Fragment> },
          { name: "Account", cell: (k) => <T text={k.account} /> },
          { name: "Last use", cell: (k) => <Used at={k.lastUse} /> },
          { name: "Expires", cell: (k) => <Expires k={k} /> },
          { name: "Allowed actions", wide: true, cell: (k) => k.allow.includes("*") ? "all actions" : <ul class="allow">{k.allow.map((a) => <li key={a}><code><T text={a} /></code></li>)}</ul> },
        ]} />
        <p class="dim">Uses are known since <Time at={list.since} />, when the server started, or took the lead of its cluster. A request with a token or in a session counts as a use of its key. Tokens and sessions are not keys, and are not listed. To add, change or remove a key, edit the credentials file of the server and send SIGHUP.</p>
      </Fragment>}</Wait>
  </Fragment>;
}

function Used({ at }: { at?: string }) {
  if (!at) return <span class="dim">not used</span>;
  const ago = now.value - Date.parse(at);
  return <Fragment><Time at={at} /> <span class="dim">{ago < 5000 ? "just now" : age(ago) + " ago"}</span></Fragment>;
}

function Expires({ k }: { k: AccessKey }) {
  if (!k.expires) return <span class="dim">never</span>;
  const left = Date.parse(k.expires) - now.value;
  return <Fragment><Time at={k.expires} />{k.expired ? <Fragment> <Badge kind="bad">expired</Badge></Fragment> : left < soon && <Fragment> <Badge kind="warn">in {age(left)}</Badge></Fragment>}</Fragment>;
}
