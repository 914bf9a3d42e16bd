// What the page shows where requests must be signed. [CONSOLE-7]

import { Fragment, h } from "preact";
import { useState } from "preact/hooks";
import { connect } from "../api";
import { cmd, CommandList } from "../commands";
import { T, useTitle } from "../parts";
import { refused, token } from "../state";

const local = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/;
const safe = location.protocol === "https:" || local.test(location.hostname);

export function SignIn() {
  useTitle("Sign in");
  const [text, type] = useState("");
  const [error, fail] = useState("");
  const enter = async (e: Event) => {
    e.preventDefault();
    token.value = text.trim();
    try {
      await connect();
    } catch (failed) {
      token.value = "";
      fail((failed as Error).message);
    }
  };
  return <Fragment>
    <h1>This server requires a key</h1>
    <p>Where your key is in the environment, make a token that is valid for one hour:</p>
    <CommandList list={[cmd("Print a token", "tenaq", "token", "--for", "1h")]} />
    {safe ? <form class="signin" onSubmit={enter}>
      <label class="field wide"><span>Token</span><input type="password" autocomplete="off" value={text} onInput={(e) => type(e.currentTarget.value)} /></label>
      <button type="submit" disabled={!text.trim()}>Open the console</button>
      <p class="dim">The token stays in the memory of this page, and is gone when you close or reload it.</p>
    </form> : <p class="problem">This page came over plain HTTP from another machine, so others could read the token on the way. It takes a token only over TLS (<code>--tls-cert</code>, <code>--tls-key</code>) or on the machine itself.</p>}
    {(error || refused.value) && <p class="dim">The server says: <T text={error || refused.value} /></p>}
  </Fragment>;
}
