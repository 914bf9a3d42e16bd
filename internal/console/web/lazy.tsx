// Screens that are not wanted at once are scripts of their own.

import { h, type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

type More = typeof import("./more");

let more: More | undefined;

// lazy is a screen of more.ts, which is loaded when the first of them is shown.
export function lazy<P extends object>(of: (all: More) => ComponentType<P>) {
  return (props: P) => {
    const [state, set] = useState(more ? "there" : "");
    useEffect(() => { // also if it is there by now: it may have come after this screen was drawn without it
      import("./more").then((all) => { more = all; set("there"); }, () => set("lost"));
    }, []);
    if (!more) return <div class="loading">{state === "lost" ? "This part of the console could not be loaded. Reload the page." : "Loading…"}</div>;
    const Screen = of(more) as ComponentType<object>;
    return <Screen {...props} />;
  };
}
