// Goal: an operator sees in the console what the system does: a transaction that becomes durable, what is at risk, a stall, and what the loss
// of a region discards. It works with the keyboard, at phone width, and has names for screen readers. Method: Chromium opens the console of a
// tracker that survives, in a real system of three regions that asks for keys; axe-core looks at each view.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, afterEach, before, describe, test } from "node:test";
import axe from "axe-core";
import { type DevBrowser, launchBrowser, type Page, whyNoBrowser } from "@highwater/lab-tools/browser";
import { eventually } from "@highwater/lab-tools/process";
import type { DurabilityEvent, LostDetails, ReplayOutcome, TransactionResponse } from "@highwater/protocol";
import { Keyboard } from "./keyboard.ts";
import { drawn, openConsole, Scene, show, signIn, WEST } from "./scene.ts";

const LIMIT_MS = 120_000;
const PHONE = { width: 360, height: 740 };
const DESKTOP = { width: 1280, height: 800 };
const TABLET = { width: 768, height: 1_024 };

let scene: Scene;
let launched: DevBrowser;
let page: Page;
let lost: TransactionResponse;
let parcel: string;
let shipped: TransactionResponse;
const faults: string[] = [];

/** In both colour schemes, and at three widths: nothing may be wider than the screen, no table than its card. */
async function assertAccessible(where: string): Promise<void> {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    for (const size of [DESKTOP, TABLET, PHONE]) {
      await page.setViewportSize(size);
      await drawn(page);
      await page.evaluate(axe.source);
      const found = await page.evaluate<string[]>(
        "axe.run(document).then(({ violations, passes }) => passes.length < 5 ? ['axe has not looked'] : violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => id + ': ' + html)))",
      );
      assert.deepEqual(found, [], `${where}, ${colorScheme}, ${String(size.width)} pixels`);
      const tooWide = await page.evaluate("document.documentElement.scrollWidth - innerWidth");
      assert.ok(Number(tooWide) <= 0, `${where} is ${String(tooWide)} pixels too wide`);
      const cut = await page.evaluate<string[]>(
        "Array.from(document.querySelectorAll('.table')).filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.textContent)",
      );
      assert.deepEqual(cut, [], `${where} shows no whole table at ${String(size.width)} pixels`);
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize(DESKTOP);
}

const row = (text: string) => page.getByRole("row").filter({ hasText: text });

/** Shows a transaction by its token or id. */
async function showTransaction(text: string): Promise<void> {
  await show(page, "A transaction");
  await page.getByLabel("Token or id of a transaction").fill(text);
  await page.keyboard.press("Enter");
}

describe("the console", { skip: whyNoBrowser() }, () => {
  before(async () => {
    scene = await Scene.start();
    parcel = await scene.makeParcel();
    launched = await launchBrowser();
    page = await openConsole(launched.browser, { url: scene.url, faults });
    page.setDefaultTimeout(LIMIT_MS);
  });

  after(async () => {
    await launched.close();
    await scene[Symbol.asyncDispose]();
  });

  afterEach(async (context) => {
    if ("passed" in context && context.passed !== true)
      console.log("the page shows", await page.evaluate("document.body.innerText"));
  });

  test("a wrong key is refused, a right one opens the console, and the browser keeps nothing of it", async () => {
    await page.getByLabel("API key or token").waitFor();
    await assertAccessible("signing in");
    const isFocused = await page.evaluate("document.activeElement.id");
    assert.equal(isFocused, "key", "the field has the focus");
    await page.keyboard.type("hwk_wrong");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").waitFor();
    await signIn(page, scene.key);
    const kept = await page.evaluate<unknown[]>(
      "[localStorage.length, sessionStorage.length, document.cookie, location.href.includes('hwk_')]",
    );
    assert.deepEqual(kept, [0, 0, "", false]);
  });

  test("a browser without a locale shows the page", async () => {
    const context = await launched.browser.newContext();
    await context.addInitScript(
      "Object.defineProperty(Navigator.prototype, 'language', { get: () => 'en-US@posix' })",
    );
    const other = await context.newPage();
    await other.goto(scene.url);
    await other.getByLabel("API key or token").waitFor({ timeout: LIMIT_MS });
    await context.close();
  });

  test("the page shows the primary, the nodes and the marks of all levels", async () => {
    const nodes = page.getByRole("region", { name: "Nodes" });
    for (const node of ["us-east", "us-west", "eu-west"])
      await nodes.getByRole("rowheader", { name: node }).waitFor();
    await nodes.getByRole("row").filter({ hasText: "primary" }).filter({ hasText: "us-east" }).waitFor();
    const marks = page.getByRole("region", { name: "Marks" });
    for (const level of ["disk", "region", "global"])
      await marks.getByRole("rowheader", { name: level }).waitFor();
    await page.getByText("the ancestry of its epochs").waitFor();
    await assertAccessible("Now");
  });

  test("the time of a commit is shown beside the time until it is durable", async () => {
    let number = 0;
    const lines = page.getByRole("figure", { name: "Time until committed" }).getByRole("listitem");
    await eventually("both times are shown", async () => {
      await scene.order(`timed ${String(number++)}`);
      const texts = await lines.allTextContents();
      return ["region", "fast commit"].every((name) =>
        texts.some((text) => text.startsWith(name) && / ?m?s$/.test(text)),
      );
    });
  });

  test("a transaction becomes durable, on its time line and in the events, with its metadata", async () => {
    await show(page, "After a failover");
    await page.getByLabel("Show as they become durable at").selectOption("region");
    // Reported from the moment when the tracker knows of the subscription.
    let number = 0;
    let last: TransactionResponse | undefined;
    await eventually("a durable transaction is shown", async () => {
      last = await scene.order(`kept-${String(++number)}`);
      return (await row("transaction.durable").count()) > 0;
    });
    await row("shop=Porto").first().waitFor();
    await showTransaction(last?.token ?? "");
    await page.getByText("Durable at global").waitFor();
    await page
      .getByRole("listitem")
      .filter({ hasText: "Committed" })
      .getByText("epoch 1 on us-east")
      .waitFor();
    await assertAccessible("A transaction");
  });

  test("before a failover, the page names the candidates, what they would lose and the commands", async () => {
    await show(page, "Before a failover");
    await row("most advanced").waitFor();
    for (const node of ["us-west", "eu-west"]) await row(node).getByText("none").waitFor();
    await page.getByText(`--tracker ${new URL(scene.url).origin}`).waitFor();
    await page.getByText("SELECT pg_promote();").waitFor();
    await assertAccessible("Before a failover");
  });

  test("a webhook's deliveries are shown with their attempts, and a test message is sent", async () => {
    await scene.makeWebhook();
    await show(page, "Webhooks");
    await page.getByRole("button", { name: /^Send a test message/ }).click();
    await page.getByText("Test message: done.").waitFor();
    await page.getByRole("link", { name: "https://127.0.0.1:9/orders" }).click();
    await row("webhook.test")
      .getByRole("button", { name: /^Show the attempts/ })
      .click();
    await row("connection").first().waitFor();
    await assertAccessible("Webhooks");
  });

  test("operators see the keys of all owners, and the limits of all gateways", async () => {
    await scene.makeKeys();
    await show(page, "Keys and limits");
    for (const gateway of ["us-east", "us-west", "eu-west"])
      await row(gateway).filter({ hasText: "exposureTransactions" }).getByText("200,000").first().waitFor();
    await row("shop reports").getByText("ratePerSecond: 50").waitFor();
    await row("shop reports")
      .getByText(/^in [34] days$/)
      .waitFor();
    assert.equal(await row("crane's old key").count(), 0, "a revoked key is not among the active ones");
    await page.getByLabel("State").selectOption("revoked");
    await row("crane's old key").waitFor();
    await page.getByLabel("State").selectOption("All");
    await page.getByLabel(/^Search/).fill("crane");
    await page.getByText("2 of 4 keys").waitFor();
    assert.ok(!(await page.content()).includes(scene.key.slice(-16)), "no secret is in the page");
    await assertAccessible("Keys and limits");
  });

  test("a whole visit needs no mouse, and a screen reader has a name for every stop", async () => {
    const keyboard = new Keyboard(page);
    await page.reload();
    await page.getByLabel("API key or token").waitFor();
    await keyboard.untilOn("textbox", "API key or token");
    await keyboard.type(scene.key);
    await keyboard.press("Enter");
    await page.getByRole("heading", { name: "Keys and limits", level: 1 }).waitFor();

    await keyboard.open("Now");
    await row("primary").filter({ hasText: "us-east" }).waitFor();
    await keyboard.goAround("Now");
    await keyboard.press("Enter");
    // The link skips to the content.
    await keyboard.untilOn("heading", "Now");

    const { id, token } = await scene.order("by-keyboard");
    await keyboard.open("A transaction");
    await keyboard.goTo("textbox", "Token or id of a transaction");
    await keyboard.type(token);
    await keyboard.press("Enter");
    await page.getByText("Durable at global").waitFor();
    await keyboard.goAround("A transaction");
    await keyboard.goTo("textbox", "Token or id of a transaction");
    await keyboard.press("Control+A");
    await keyboard.type(id);
    await keyboard.press("Enter");
    await page.getByText("No event has this id").waitFor();
    await keyboard.goTo("button", "Copy: ask a gateway");
    await keyboard.press("Enter");
    await page.getByText(/^(Copied\.|Select the text and copy it\.)$/).waitFor();

    await keyboard.open("After a failover");
    await keyboard.goTo("combobox", "Type");
    await keyboard.press("End");
    assert.equal(await page.getByLabel("Type").inputValue(), "webhook.disabled");
    await keyboard.press("Home");
    await keyboard.goTo("combobox", "Show as they become durable at");
    await keyboard.press("End");
    await page.getByRole("status").filter({ hasText: "event" }).waitFor({ state: "attached" });
    await keyboard.goAround("After a failover");

    await keyboard.open("Before a failover");
    await row("most advanced").waitFor();
    await keyboard.goAround("Before a failover");
    await keyboard.goTo("combobox", "Node");
    const chosen = await page.getByLabel("Node", { exact: true }).inputValue();
    await keyboard.press("ArrowDown", "ArrowUp", "End");
    const other = await page.getByLabel("Node", { exact: true }).inputValue();
    assert.notEqual(other, chosen);
    await page.getByText(`VALUES ('${other}',`).waitFor();

    await keyboard.open("Webhooks");
    await keyboard.goTo("button", /^Send a test message/);
    await keyboard.press("Enter");
    await page.getByText("Test message: done.").waitFor();
    await keyboard.goTo("link", "https://127.0.0.1:9/orders", "Shift+Tab");
    await keyboard.press("Enter");
    await keyboard.untilOn("heading", /^Deliveries to /);
    await row("webhook.test").first().waitFor();
    await keyboard.goTo("button", /^Show the attempts/);
    await keyboard.press("Enter");
    await keyboard.untilOn("heading", /^Attempts of /);
    await keyboard.goAround("Webhooks");

    await keyboard.open("Keys and limits");
    await keyboard.goTo("searchbox", /^Search/);
    await keyboard.type("reports");
    await page.getByText("1 of 4 keys").waitFor();
    await keyboard.goAround("Keys and limits");

    await keyboard.goTo("button", "Sign out", "Shift+Tab");
    await keyboard.press("Enter");
    await page.getByLabel("API key or token").waitFor();
    await keyboard.untilOn("textbox", "API key or token");
    await signIn(page, scene.key, "Keys and limits");
  });

  test("the page shows what is at risk and a stall as it happens", async () => {
    await show(page, "Now");
    await scene.starve();
    lost = await scene.order("at-risk-1");
    await scene.order("at-risk-2");
    shipped = await scene.ship(parcel, "Porto");
    await scene.untilPending(3);
    await page.getByText("Stalled: region").waitFor();
    const risk = page.getByRole("region", { name: "At risk" });
    await eventually("three transactions are at risk", async () =>
      /Transactions\s*3/.test((await risk.textContent()) ?? ""),
    );
    await page.getByRole("listitem").filter({ hasText: "Level region is stalled" }).waitFor();
    await assertAccessible("Now, with a stall");
    await show(page, "Before a failover");
    await row("us-west")
      .getByText(/^(at least )?3$/)
      .waitFor();
  });

  test("after the region is lost, the page shows the loss: on the time line, as an event, and in the export", async () => {
    await showTransaction(lost.token);
    await page.getByText("Pending at region").waitFor();
    const heir = await scene.loseRegion();
    await page.getByText("Lost at region", { exact: true }).waitFor();
    await page.getByText("Reported as lost").waitFor();
    await page.getByText(`Epoch 2 has begun on ${heir} (a promotion)`).first().waitFor();
    await assertAccessible("A lost transaction");

    await show(page, "After a failover");
    await row("order=at-risk-1").getByText("transaction.lost").waitFor();
    await page.getByLabel("Type").selectOption("transaction.lost");
    await page.getByLabel(/^Search/).fill("order=at-risk");
    await page.getByRole("status").filter({ hasText: "2 events" }).waitFor({ state: "attached" });
    await assertAccessible("After a failover");
    const downloading = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export as JSON lines" }).click();
    const file = await readFile(await (await downloading).path(), "utf8");
    const exported = file
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as DurabilityEvent);
    assert.deepEqual(
      exported.map(({ type }) => type),
      ["transaction.lost", "transaction.lost"],
    );
    assert.ok(exported.some(({ data }) => "id" in data && data.id === lost.id));
  });

  test("the contents of a lost transaction are shown on request, and are in the export", async () => {
    await show(page, "After a failover");
    const list = page.getByRole("region", { name: "Lost transactions" });
    await list.getByRole("row").filter({ hasText: "order=at-risk-1" }).filter({ hasText: "yes" }).waitFor();
    await list.getByRole("button", { name: `Show the contents of ${lost.id}` }).click();
    await new Keyboard(page).untilOn("heading", /^Contents of /);
    await row("INSERT INTO purchase (number, id)")
      .filter({ hasText: '["at-risk-1",' })
      .getByText("INSERT 1")
      .waitFor();
    await page.getByText("Lost ones that it may have read: none").waitFor();
    await list.getByRole("button", { name: `Show the contents of ${shipped.id}` }).click();
    await page.getByText("Lost ones that it may have read:").getByRole("link").nth(1).waitFor();
    await assertAccessible("After a failover, with contents");
    const downloading = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export with contents" }).click();
    const file = await readFile(await (await downloading).path(), "utf8");
    const lines = file
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as LostDetails);
    const params = lines.map(({ kept }) => kept?.statements[0]?.params?.[0]);
    assert.deepEqual(params, ["at-risk-1", "at-risk-2", parcel]);
  });

  test("a replay brings the lost orders back and leaves what a user changed since, with both results (keyboard only)", async () => {
    await scene.ship(parcel, "Faro", WEST);
    await page.reload();
    await signIn(page, scene.key, "After a failover");
    const keyboard = new Keyboard(page);
    await page.getByLabel(`Choose ${lost.id}`).waitFor();
    await keyboard.goTo("checkbox", `Choose ${lost.id}`);
    await keyboard.press("Space");
    await keyboard.goTo("button", "Dry run of the 1 chosen");
    await keyboard.press("Enter");
    await keyboard.untilOn("heading", "Result of the dry run");
    await page.getByText("1 lost write = 1 replayed + 0 conflicts + 0 unrecoverable").waitFor();
    await keyboard.goTo("checkbox", `Choose ${lost.id}`, "Shift+Tab");
    await keyboard.press("Space");
    await keyboard.goTo("button", "Dry run of all");
    await keyboard.press("Enter");
    await page.getByText("3 lost writes = 2 replayed + 1 conflict + 0 unrecoverable").waitFor();
    const dry = page.getByRole("table", { name: "Result of the dry run" }).getByRole("row");
    const conflict = dry.filter({ hasText: shipped.id });
    await conflict.getByText("a row that it writes was written since the loss, statement 1").waitFor();
    assert.equal(await conflict.getByText(/^UPDATE 1, rows [0-9a-f]{12}…$/).count(), 2, "both sides");
    await dry.filter({ hasText: lost.id }).getByText("would be replayed").waitFor();
    await keyboard.goTo("button", "Bring 2 transactions back");
    await keyboard.press("Enter");
    await keyboard.untilOn("heading", "Bring 2 transactions back?");
    await assertAccessible("After a failover, with a replay to confirm");
    assert.deepEqual(await scene.numbers(), ["a parcel"], "nothing is back before it is confirmed");
    await keyboard.goTo("button", "Bring them back");
    await keyboard.press("Enter");
    await keyboard.untilOn("heading", "Result");
    await keyboard.goAround("After a failover");
    assert.deepEqual(await scene.numbers(), ["a parcel", "at-risk-1", "at-risk-2"]);
    const downloading = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export the result" }).click();
    const file = await readFile(await (await downloading).path(), "utf8");
    const ends = file
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as ReplayOutcome & { readonly dryRun: boolean });
    assert.deepEqual(
      ends.map(({ dryRun, outcome }) => [dryRun, outcome]),
      [
        [false, "replayed"],
        [false, "replayed"],
        [false, "conflict"],
      ],
    );
  });

  test("the page shows the new primary", async () => {
    const nodes = await scene.system.cluster.status();
    const primary = nodes.find(({ state }) => state === "primary")?.id ?? "";
    await show(page, "Now");
    await row("primary").filter({ hasText: primary }).waitFor();
  });

  test("a reload forgets the key, and the browser had nothing to complain about", async () => {
    await page.reload();
    await page.getByLabel("API key or token").waitFor();
    assert.deepEqual(faults, []);
  });
});
