// A three-region system with keys for the console's test and its pictures: it commits transactions
// with metadata, and loses the primary's region with transactions that no other region has.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { System } from "@highwater/lab-system";
import { KEEPING, newId, post, starve } from "@highwater/lab-system/testing";
import type { Browser, Page } from "@highwater/lab-tools/browser";
import { eventually } from "@highwater/lab-tools/process";
import type { TransactionResponse } from "@highwater/protocol";
import { buildConsole } from "../src/build.ts";

const EAST = "us-east";
/** The region of the tracker that serves the console. It survives. */
export const WEST = "us-west";
const EUROPE = "eu-west";
const INSERT = "INSERT INTO purchase (number, id) VALUES ($1, $2)";
const SHIP = "UPDATE purchase SET shipped = $2 WHERE id = $1 RETURNING shipped";

export class Scene implements AsyncDisposable {
  readonly system: System;
  readonly key: string;

  private constructor(system: System, key: string) {
    this.system = system;
    this.key = key;
  }

  static async start(): Promise<Scene> {
    await buildConsole();
    const system = await System.start({
      env: {
        ...{
          GATEWAY_AUTH: "keys",
          TRACKER_AUTH: "keys",
          HIGHWATER_INTERNAL_SECRET: "a secret of the services",
          ...KEEPING,
          GATEWAY_KEEP: "true",
        },
        ...{
          TRACKER_STALL_AFTER_MS: "1500",
          TRACKER_PUBLISH_PATIENCE_MS: "300",
          TRACKER_WEBHOOK_ALLOW: "127.0.0.1",
        },
      },
    });
    const key = await system.createKey({
      ...{
        name: "shop operators",
        owner: "shop",
        scopes: ["read", "write", "webhooks", "admin", "contents:read", "contents:replay"],
      },
    });
    const scene = new Scene(system, key);
    await scene.run("CREATE TABLE purchase (number text, id uuid PRIMARY KEY, shipped text)", {});
    return scene;
  }

  get url(): string {
    return `${this.system.tracker(WEST).url}/console`;
  }

  /** Commits an order. Sends it again while the gateway asks to wait. */
  order(number: string): Promise<TransactionResponse> {
    return this.run(INSERT, { order: number, shop: "Porto" }, [number, randomUUID()]);
  }

  /** An order whose parcel can be sent to another town. */
  async makeParcel(): Promise<string> {
    const id = randomUUID();
    await this.run(INSERT, { order: "a parcel" }, ["a parcel", id]);
    return id;
  }

  ship(id: string, town: string, region = EAST): Promise<TransactionResponse> {
    return this.run(SHIP, { order: `to ${town}` }, [id, town], region);
  }

  /** Orders of the present primary but those that were committed before the region starved; sorted. */
  async numbers(): Promise<string[]> {
    const sql = "SELECT number FROM purchase WHERE number ~ '^(at-risk|a parcel)' ORDER BY number";
    const { results } = (await this.run(sql, {}, [], WEST)) as { results: { rows: [string][] }[] | null };
    return (results?.[0]?.rows ?? []).map(([number]) => number);
  }

  run(
    sql: string,
    metadata: Readonly<Record<string, string>>,
    params: readonly string[] = [],
    region = EAST,
  ): Promise<TransactionResponse> {
    const body = { id: newId(), statements: [{ sql, params }], metadata };
    return eventually("the transaction commits", async () => {
      const answer = await post<TransactionResponse>(
        `${this.system.gateway(region).url}/v1/transactions`,
        body,
        {
          authorization: `Bearer ${this.key}`,
        },
      );
      if (answer.status === 503) return undefined;
      assert.equal(answer.status, 200, JSON.stringify(answer.body));
      return answer.body;
    });
  }

  /** An endpoint that does not answer. */
  async makeWebhook(): Promise<void> {
    const webhook = {
      url: "https://127.0.0.1:9/orders",
      events: ["transaction.lost"],
      description: "Orders",
    };
    await eventually("the endpoint is made", async () => {
      const url = `${this.system.tracker(WEST).url}/v1/webhooks`;
      const answer = await post(url, webhook, { authorization: `Bearer ${this.key}` });
      if (answer.status === 503) return undefined;
      assert.equal(answer.status, 201, JSON.stringify(answer.body));
      return true;
    });
  }

  /** Of two more owners; one of them is revoked. */
  async makeKeys(): Promise<void> {
    const { system } = this;
    await system.createKey({
      ...{ name: "shop reports", owner: "shop", scopes: ["read"] },
      limits: ["--rate", "50", "--expires", "5d"],
    });
    await system.createKey({ name: "crane's orders", owner: "crane", scopes: ["read", "write"] });
    const old = await system.createKey({
      name: "crane's old key",
      owner: "crane",
      scopes: ["read", "write"],
    });
    await system.revokeKey(old);
  }

  /** From here on no log leaves the primary's region, while announcements do. */
  async starve(): Promise<void> {
    await this.system.cluster.waitForStreaming();
    for (const replica of [EUROPE, WEST]) await starve(this.system, replica);
  }

  /** Until the console's tracker holds them. */
  async untilPending(count: number): Promise<void> {
    await eventually("the tracker holds the transactions", async () => {
      const text = await (await fetch(`${this.system.tracker(WEST).url}/metrics`)).text();
      const [, pending] = /^highwater_pending_transactions\{level="region"\} ([0-9]+)$/m.exec(text) ?? [];
      return Number(pending) >= count;
    });
  }

  async loseRegion(): Promise<string> {
    await this.system.killRegion(EAST);
    const node = await this.system.cluster.mostAdvancedReplica();
    await this.system.cluster.promote(node);
    return node;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.system.close();
  }
}

/** A page with the console; `faults` gets what its browser complains about. */
export async function openConsole(
  browser: Browser,
  { url, faults }: { url: string; faults: string[] },
): Promise<Page> {
  const context = await browser.newContext({ locale: "en-US", timezoneId: "UTC" });
  const page = await context.newPage();
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => {
    // A refused call is what signing in and a failover look like, and the browser notes each.
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
      faults.push(message.text());
  });
  await page.goto(url);
  return page;
}

/** `view`: the one that the address names. */
export async function signIn(page: Page, key: string, view = "Now"): Promise<void> {
  await page.getByLabel("API key or token").fill(key);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: view, level: 1 }).waitFor();
}

export async function show(page: Page, view: string): Promise<void> {
  await page.getByRole("navigation").getByRole("link", { name: view, exact: true }).click();
  await page.getByRole("heading", { name: view, level: 1 }).waitFor();
}

/** Two frames after a change of the size: in the first, tables and plots take theirs. */
export async function drawn(page: Page): Promise<void> {
  await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
}
