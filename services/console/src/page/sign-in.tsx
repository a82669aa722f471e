// Asks for a key. The field belongs to no form of the browser, so that no password manager keeps
// the key.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { signIn } from "./session.ts";

export function SignIn({ refusal }: { refusal: string }) {
  const [isBusy, setBusy] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  // Before it is painted: a key that is typed or pasted at once lands in the field.
  useLayoutEffect(() => {
    field.current?.focus();
  }, []);
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    const key = field.current?.value.trim() ?? "";
    if (key === "") return;
    setBusy(true);
    void signIn(key).finally(() => {
      setBusy(false);
    });
  };
  return (
    <main class="sign-in">
      <h1>Highwater console</h1>
      <form class="card" onSubmit={submit}>
        <label for="key">API key or token</label>
        <input id="key" ref={field} type="password" autocomplete="off" required aria-describedby="key-help" />
        <p id="key-help">
          The page keeps the key in memory only: a reload forgets it. The scope <code>read</code> shows marks
          and events, <code>admin</code> the preview of a failover, keys and limits, <code>webhooks</code>{" "}
          your webhooks.
        </p>
        {refusal !== "" && (
          <p class="notice bad" role="alert">
            {refusal}
          </p>
        )}
        <button type="submit" disabled={isBusy}>
          Sign in
        </button>
      </form>
    </main>
  );
}
