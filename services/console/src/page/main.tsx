// The console: signing in, the navigation, and one view at a time, which the address's fragment
// names.
import "./language.ts";
import { signal } from "@preact/signals";
import { type ComponentChildren, render } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import type { ConsoleScope } from "./access.ts";
import { AfterView } from "./after.tsx";
import { BeforeView } from "./before.tsx";
import { KeysView } from "./keys.tsx";
import { Badge } from "./parts.tsx";
import { NowView } from "./now.tsx";
import { TransactionView } from "./transaction.tsx";
import { WebhooksView } from "./webhooks.tsx";
import { access, served, type Session, session, signIn, signOut } from "./session.ts";
import { SignIn } from "./sign-in.tsx";
import "uplot/dist/uPlot.min.css";
import "./style.css";
import "./tables.css";
import "./map.css";
import "./plot.css";

interface View {
  readonly path: string;
  readonly title: string;
  readonly scope: ConsoleScope;
  readonly show: (session: Session, argument: string) => ComponentChildren;
}

const VIEWS: readonly View[] = [
  { path: "now", title: "Now", scope: "read", show: ({ live }) => <NowView live={live} /> },
  {
    path: "transaction",
    title: "A transaction",
    scope: "read",
    show: (session, argument) => <TransactionView session={session} argument={argument} />,
  },
  {
    path: "after",
    title: "After a failover",
    scope: "read",
    show: (session) => <AfterView session={session} />,
  },
  {
    path: "before",
    title: "Before a failover",
    scope: "admin",
    show: (session) => <BeforeView session={session} />,
  },
  {
    path: "webhooks",
    title: "Webhooks",
    scope: "webhooks",
    show: (session, argument) => <WebhooksView session={session} argument={argument} />,
  },
  {
    path: "keys",
    title: "Keys and limits",
    scope: "admin",
    show: (session) => <KeysView session={session} />,
  },
];

const place = signal(location.hash);
addEventListener("hashchange", () => {
  place.value = location.hash;
});

function App() {
  const state = access.value;
  const current = session.value;
  if (state.kind === "checking") return <Waiting text="Asking the tracker." />;
  if (state.kind === "unavailable") return <Unavailable reason={state.reason} />;
  if (state.kind === "asked" || current === null)
    return <SignIn refusal={state.kind === "asked" ? state.refusal : ""} />;
  const views = VIEWS.filter(({ scope }) => state.scopes.has(scope));
  const [name = "", argument = ""] = place.value.replace(/^#\/?/, "").split("/");
  const view = views.find(({ path }) => path === name) ?? views[0];
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Header views={views} current={view} hasKey={state.hasKey} live={current.live} />
      {view === undefined ? (
        <Waiting text="This key may not see any view." />
      ) : (
        <Main key={view.path} title={view.title}>
          {view.show(current, textOf(argument))}
        </Main>
      )}
    </>
  );
}

/** Of a part of the address, which a person may have typed. */
function textOf(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** The fragment names the view, so the link moves the focus itself. */
function skip(event: MouseEvent): void {
  event.preventDefault();
  document.querySelector<HTMLElement>("#main h1")?.focus();
}

function Header(props: {
  views: readonly View[];
  current: View | undefined;
  hasKey: boolean;
  live: Session["live"];
}) {
  const { views, current, hasKey, live } = props;
  const connection = live.connection.value;
  return (
    <header>
      <p class="brand">
        Highwater <span class="muted">{served("tracker")}</span>{" "}
        {views.some(({ scope }) => scope === "read") && (
          <Badge tone={connection === "live" ? "good" : connection === "lost" ? "bad" : "waiting"}>
            {connection}
          </Badge>
        )}
      </p>
      <nav aria-label="Views">
        {views.map(({ path, title }) => (
          <a key={path} href={`#/${path}`} aria-current={path === current?.path ? "page" : undefined}>
            {title}
          </a>
        ))}
      </nav>
      {hasKey && (
        <button type="button" onClick={signOut}>
          Sign out
        </button>
      )}
    </header>
  );
}

/** Moves the focus to the heading of a view that was chosen, and names the view in the title. */
function Main({ title, children }: { title: string; children: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null);
  // At once: later it would take the focus from a field that is already being filled in.
  useLayoutEffect(() => {
    document.title = `${title} - Highwater console`;
    heading.current?.focus({ preventScroll: true });
  }, []);
  return (
    <main id="main">
      <h1 ref={heading} tabIndex={-1}>
        {title}
      </h1>
      {children}
    </main>
  );
}

function Waiting({ text }: { text: string }) {
  return (
    <main class="sign-in">
      <h1>Highwater console</h1>
      <p role="status">{text}</p>
    </main>
  );
}

function Unavailable({ reason }: { reason: string }) {
  return (
    <main class="sign-in">
      <h1>Highwater console</h1>
      <p class="notice bad" role="alert">
        {reason}
      </p>
      <button type="button" onClick={() => void signIn(null)}>
        Try again
      </button>
    </main>
  );
}

const root = document.querySelector("#app");
if (root !== null) render(<App />, root);
void signIn(null);
