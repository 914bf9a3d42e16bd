// What the page shows where requests must be signed. [CONSOLE-7]

import { Fragment, h } from "preact";
import { useState } from "preact/hooks";
import { signIn } from "../api";
import { T, useTitle } from "../parts";
import { refused } from "../state";

const local = /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/;
const safe = location.protocol === "https:" || local.test(location.hostname);

export function SignIn() {
  useTitle("Sign in");
  const [id, setId] = useState(""), [secret, setSecret] = useState(""), [token, setToken] = useState("");
  const [error, fail] = useState("");
  const [busy, setBusy] = useState(false);
  const enter = async (e: Event) => {
    e.preventDefault();
    setBusy(true);
    try {
      await signIn(id.trim(), secret, token.trim());
    } catch (failed) {
      fail((failed as Error).message);
      setSecret("");
    }
    setBusy(false);
  };
  if (!safe) return <Fragment><h1>Sign in</h1><p class="problem">This page came over plain HTTP from another machine, so others could read the secret on the way. Serve TLS (<code>--tls-cert</code>, <code>--tls-key</code>), or forward a port from your machine: <code>ssh -L 9324:127.0.0.1:9324 <T text={location.hostname} /></code></p></Fragment>;
  return <form class="signin" onSubmit={enter}>
    <h1>Sign in</h1>
    <p class="dim">This server requires an access key. In the console, you can do what the key allows.</p>
    {(error || /^(The|You) /.test(refused.value)) && <p class={error ? "problem" : "dim"} role={error ? "alert" : "status"}><T text={error || refused.value} /></p>}
    <label class="field"><span>Access key id</span><input name="id" autocomplete="username" spellcheck={false} autocapitalize="off" required value={id} onInput={(e) => setId(e.currentTarget.value)} /></label>
    <label class="field"><span>Secret access key</span><input name="secret" type="password" autocomplete="current-password" required value={secret} onInput={(e) => setSecret(e.currentTarget.value)} /></label>
    <details><summary>The key is temporary</summary><label class="field"><span>Session token</span><input name="token" type="password" autocomplete="off" value={token} onInput={(e) => setToken(e.currentTarget.value)} /></label></details>
    <button type="submit" class="primary" disabled={busy || !id.trim() || !secret}>{busy ? "Signing in…" : "Sign in"}</button>
    <p class="dim">The secret is sent once and kept nowhere. The session ends after 30 minutes without use, and after 8 hours at the latest. In a shell, <code>tenaq token</code> makes a token for curl.</p>
  </form>;
}
