// What operators did to tasks and messages.

import { Fragment, h } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Action, ActionList } from "../api.gen";
import { Failed, get } from "../api";
import { cmd, useCommands } from "../commands";
import { Empty, More, QueueLink, T, Table, Time, useTitle } from "../parts";
import { epoch, link } from "../state";

export function Log() {
  useTitle("Action log");
  const [list, set] = useState<Action[] | null>(null);
  const [next, setNext] = useState<number | undefined>();
  const [error, fail] = useState<Failed | null>(null);
  const load = async (before: number | undefined, shown: Action[]) => {
    try {
      const got = await get<ActionList>("/actions", { before, limit: 100 });
      set([...shown, ...got.actions]);
      setNext(got.next);
      fail(null);
    } catch (e) {
      if (e instanceof Failed) fail(e);
    }
  };
  useEffect(() => void load(undefined, []), [epoch.value]);
  useCommands([cmd("Show what operators did", "tenaq", "task", "log", "--limit", "100")]);
  return <Fragment>
    <h1>Action log</h1>
    {error && error.status > 0 && <div class="problem" role="alert"><T text={error.message} /></div>}
    {!list && !error && <div class="loading">Loading…</div>}
    {list?.length === 0 && <Empty>No operator has changed anything yet with this console or a tenaq command.</Empty>}
    {list && list.length > 0 && <Table name="Actions" rows={list} id={(a) => String(a.number)} columns={[
      { name: "Time", cell: (a) => <Time at={a.at} /> },
      { name: "By", cell: (a) => <T text={a.by} /> },
      { name: "Action", cell: (a) => <T text={a.action} /> },
      { name: "About", cell: (a) => <About a={a} /> },
      { name: "Details", wide: true, cell: (a) => <T text={a.text ?? ""} /> },
    ]} />}
    {next ? <More ask={() => void load(next, list ?? [])}>Earlier actions</More> : null}
  </Fragment>;
}

// About links to what an action was about.
function About({ a }: { a: Action }) {
  if (/^(SignIn|SignOut)$/.test(a.action) || /Alarm|TestAction/.test(a.action)) return <T text={a.about} />;
  return a.about.includes(":") ? <a data-row href={link(["tasks", a.about])}><T text={a.about} /></a> : <QueueLink name={a.about} />;
}
