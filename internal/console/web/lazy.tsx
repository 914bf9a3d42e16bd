// Screens that are not wanted at once are in scripts of their own.

import { h, type ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";

// lazy makes screens of a script, which is loaded when the first of them is shown.
function lazy<M>(load: () => Promise<M>) {
  let script: M | undefined;
  return <P extends object>(of: (all: M) => ComponentType<P>) => (props: P) => {
    const [state, set] = useState(script ? "there" : "");
    useEffect(() => { // also if it is there by now: it may have come after this screen was drawn without it
      load().then((all) => { script = all; set("there"); }, () => set("lost"));
    }, []);
    if (!script) return <div class="loading">{state === "lost" ? "This part of the console could not be loaded. Reload the page." : "Loading…"}</div>;
    const Screen = of(script) as ComponentType<object>;
    return <Screen {...props} />;
  };
}

export const more = lazy(() => import("./more")), inside = lazy(() => import("./inside"));
