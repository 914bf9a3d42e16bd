// The message groups of a FIFO queue, locked ones first.

import { Fragment, h } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Group, GroupList } from "../api.gen";
import { Failed, get, useLatest } from "../api";
import { cmd, useCommands, v } from "../commands";
import { age, count } from "../format";
import { Choice, Empty, MessageLink, More, State, T, Table, Time } from "../parts";
import { change, epoch, route } from "../state";

export function Groups({ queue }: { queue: string }) {
  const only = route.value.query.get("only") ?? "";
  const [list, set] = useState<Group[] | null>(null);
  const [next, setNext] = useState<string | undefined>();
  const [error, fail] = useState<Failed | null>(null);
  const latest = useLatest();
  const load = async (after: string, before: Group[]) => {
    try {
      const got = await latest(get<GroupList>(`/queues/${encodeURIComponent(queue)}/groups`, { only, after, limit: 100 }));
      set([...before, ...got.groups]);
      setNext(got.next);
      fail(null);
    } catch (e) {
      if (e instanceof Failed) fail(e);
    }
  };
  useEffect(() => void load("", []), [queue, only, epoch.value]);
  const locked = list?.find((g) => g.state !== "visible");
  useCommands([
    cmd("List the groups", "tenaq", "group", "list", v(queue), ...(only ? ["--locked"] : [])),
    ...(locked ? [cmd("Release the group that has been locked longest", "tenaq", "group", "release", v(queue), v(locked.group))] : []),
  ]);
  return <Fragment>
    <div class="filters"><Choice name="Show" value={only} values={[["", "all groups"], ["locked", "locked groups"]]} set={(v) => change({ only: v })} /></div>
    {error && error.status > 0 && <div class="problem" role="alert"><T text={error.message} /></div>}
    {!list && !error && <div class="loading">Loading…</div>}
    {list?.length === 0 && <Empty>{only ? "No group is locked or held." : "The queue is empty."}</Empty>}
    {list && list.length > 0 && <Fragment>
      <p class="lead">A group is locked while its first message is in flight or delayed: its other messages wait for that one. A held group waits for its dead letters.</p>
      <Table name="Message groups" rows={list} id={(g) => g.group} columns={[
        { name: "Group", wide: true, cell: (g) => <T text={g.group} /> },
        { name: "First message is", cell: (g) => <State state={g.state} /> },
        { name: "Opens in", number: true, cell: (g) => g.heldBy ? <Fragment>after <MessageLink id={g.heldBy[0]!.messageId} /></Fragment> : g.state === "visible" ? <span class="dim">open</span> : age(g.waitMs) },
        { name: "Behind it", number: true, cell: (g) => count(Math.max(0, g.messages - 1)) },
        { name: "First message", cell: (g) => g.messageId ? <MessageLink id={g.messageId} /> : <span class="dim">none</span> },
        { name: "Receives", number: true, cell: (g) => count(g.receiveCount) },
        { name: "Sent", cell: (g) => <Time at={g.sent} /> },
      ]} />
      {next && <More ask={() => void load(next, list)}>More groups</More>}
    </Fragment>}
  </Fragment>;
}
