// A stand-in for a tracker that serves the built console and sends it as many events as wanted:
// marks on the stream of marks, and on the stream of events transactions that are lost or become
// durable. A real system commits fewer a second on a small machine.
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { extname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { TemporaryFolder } from "@highwater/lab-tools/process";
import type { DurabilityEvent, EpochRecord, LiveDurableEvent, Marks } from "@highwater/protocol";
import { buildConsole } from "../src/build.ts";

const EPOCH = "11111111-1111-4111-8111-111111111111";
const LEVELS = ["disk", "region", "global"] as const;
const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};
const RECORD_BYTES = 400;
const STEP_MS = 10;
/** What every tenth event is; all others are transactions that become durable. */
const [MARKS_IN_TEN, LOST_IN_TEN] = [4, 1];

export class StandIn implements AsyncDisposable {
  readonly #folder: TemporaryFolder;
  readonly #server: Server;
  readonly #marks = new Set<ServerResponse>();
  readonly #events = new Set<ServerResponse>();
  /** Of transactions that are recorded as lost. */
  #recorded = 0;
  #sent = 0;

  private constructor(folder: TemporaryFolder, server: Server) {
    this.#folder = folder;
    this.#server = server;
  }

  /** `recorded`: events that it has when the console first asks. */
  static async start({ recorded }: { recorded: number }): Promise<StandIn> {
    const folder = await TemporaryFolder.make("highwater-console-");
    await buildConsole(folder.path);
    const server = createServer((request, response) => {
      standIn.#serve(request, response).catch((cause: unknown) => {
        response.destroy(cause instanceof Error ? cause : new Error(String(cause)));
      });
    });
    const standIn = new StandIn(folder, server);
    standIn.#recorded = recorded;
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return standIn;
  }

  get url(): string {
    return `http://127.0.0.1:${String((this.#server.address() as AddressInfo).port)}/console`;
  }

  /** A page follows the events, and gets transactions as they become durable. */
  get isFollowed(): boolean {
    return this.#events.size > 0 && this.#marks.size > 0;
  }

  /** Sends so many events, and resolves with the id of the last transaction that is lost. */
  async flood(count: number, perSecond: number): Promise<string> {
    const startedMs = performance.now();
    const first = this.#sent;
    while (this.#sent - first < count) {
      const due = Math.ceil(((performance.now() - startedMs) / 1_000) * perSecond);
      const wanted = Math.min(count, due) - (this.#sent - first);
      const [marks, events]: [string[], string[]] = [[], []];
      for (let n = 0; n < wanted; n++) this.#add(marks, events);
      await Promise.all([write(this.#marks, marks.join("")), write(this.#events, events.join(""))]);
      await pause(STEP_MS);
    }
    const last = this.#lost();
    await write(this.#events, sse(last.type, last, last.id));
    return (last.data as { readonly id: string }).id;
  }

  #add(marks: string[], events: string[]): void {
    const kind = this.#sent++ % 10;
    if (kind < MARKS_IN_TEN) {
      marks.push(sse("mark", this.#marksNow()));
      if (this.#sent % 250 === 1) marks.push(sse("exposure", this.#exposureNow()));
    } else if (kind < MARKS_IN_TEN + LOST_IN_TEN) {
      const event = this.#lost();
      events.push(sse(event.type, event, event.id));
    } else {
      const event = this.#durable();
      events.push(sse(event.type, event));
    }
  }

  #marksNow(): Marks {
    const offset = this.#sent * RECORD_BYTES;
    const levels = LEVELS.map((level, at) => [level, String(Math.max(0, offset - 4_000 * at))] as const);
    return { epoch: EPOCH, seq: 1, levels: Object.fromEntries(levels) };
  }

  #exposureNow() {
    return {
      ...{ epoch: EPOCH, level: "region", transactions: this.#sent % 90, bytes: "4000", oldestMs: 20 },
      ...{ byRegion: { east: this.#sent % 90 }, byGateway: { east: this.#sent % 90 }, byOwner: {} },
    };
  }

  #durable(): LiveDurableEvent {
    const verdicts = { region: "durable" } as const;
    const data = { ...transaction("0001", this.#sent), verdicts, rule: "R1 mark" };
    return { type: "transaction.durable", at: this.#now(), data };
  }

  #lost(): DurabilityEvent {
    return lostEvent(++this.#recorded, this.#now());
  }

  /** Each event is a millisecond later than the one before it. */
  #now(): string {
    return timeText(this.#sent);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? "", this.url);
    if (pathname.startsWith("/console")) {
      const file = pathname === "/console" ? "index.html" : pathname.slice("/console/".length);
      const text = await readFile(join(this.#folder.path, file));
      response.writeHead(200, { "content-type": TYPES[extname(file)] }).end(text);
    } else if (pathname === "/v1/durability/marks") {
      answer(response, { marks: this.#marksNow(), levels: LEVELS, epochs: [RECORD] });
    } else if (pathname === "/v1/durability/stream") {
      follow(this.#marks, response, sse("epoch", { epochs: [RECORD] }) + sse("mark", this.#marksNow()));
    } else if (pathname === "/v1/durability/events" && searchParams.get("format") === "json") {
      const from = Number(searchParams.get("after")?.split(".")[1]);
      const to = Math.min(this.#recorded, from + Number(searchParams.get("limit")));
      const events = Array.from({ length: to - from }, (_, at) => lostEvent(from + at + 1, timeText(0)));
      const next = `1.${String(to)}.11111111`;
      answer(response, { events, next, more: to < this.#recorded, missed: false });
    } else if (pathname === "/v1/durability/events") {
      follow(this.#events, response, ": hello\n\n");
    } else if (pathname === "/metrics") {
      response.writeHead(200, { "content-type": "text/plain" }).end(metricsText(this.#sent));
    } else answer(response, { code: "forbidden", title: "The credential lacks the scope." }, 403);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    await this.#folder.remove();
  }
}

const RECORD: EpochRecord = {
  ...{ id: EPOCH, seq: 1, previous: null, node: "east", cause: "first" },
  ...{ startedAt: "2026-11-28T12:00:00.000Z", startOffset: "1", forkOffset: "0", forkLimit: null },
  ...{ supersedes: [], commanded: false, finalMarks: {} },
};

const STARTED_MS = Date.parse("2026-11-28T12:00:00.000Z");

const timeText = (sent: number): string => new Date(STARTED_MS + sent).toISOString();

const transaction = (kind: string, n: number) => ({
  id: `0198c0de-${kind}-7000-8000-${String(n).padStart(12, "0")}`,
  attempt: EPOCH,
  metadata: { order: String(n), shop: "Porto" },
});

function lostEvent(n: number, at: string): DurabilityEvent {
  const data = { ...transaction("0000", n), verdicts: { region: "lost" }, rule: "R6 absent" } as const;
  return { id: `1.${String(n)}.11111111`, type: "transaction.lost", at, data };
}

const sse = (event: string, data: unknown, id?: string): string =>
  `${id === undefined ? "" : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;

function answer(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}

function follow(streams: Set<ServerResponse>, response: ServerResponse, greeting: string): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.write(greeting);
  streams.add(response);
  response.on("close", () => streams.delete(response));
}

/** Waits for a reader that is slower than the flood. */
async function write(streams: ReadonlySet<ServerResponse>, text: string): Promise<void> {
  if (text === "") return;
  const slow = [...streams].filter((stream) => !stream.write(text));
  await Promise.all(
    slow.map(
      (stream) =>
        new Promise<void>((resolve) => {
          stream.once("drain", resolve).once("close", resolve);
        }),
    ),
  );
}

function metricsText(sent: number): string {
  const nodes = ["east", "west", "north"].flatMap((node, at) => {
    const labels = `{node="${node}",region="${node}",zone="${node}-a"}`;
    return [
      `highwater_node_alive${labels} 1`,
      `highwater_node_primary${labels} ${at === 0 ? "1" : "0"}`,
      `highwater_node_position_bytes${labels} ${String(sent * RECORD_BYTES)}`,
      `highwater_replication_lag_bytes${labels} ${String(at * 4_000)}`,
      `highwater_replication_lag_seconds${labels} ${String(at * 0.02)}`,
    ];
  });
  const levels = LEVELS.flatMap((level, at) => [
    `highwater_mark_lag_bytes{level="${level}"} ${String(at * 4_000)}`,
    `highwater_pending_transactions{level="${level}"} ${String(sent % 90)}`,
    `highwater_level_stalled{level="${level}"} 0`,
    `highwater_durability_lag_seconds_bucket{level="${level}",le="0.02"} ${String(sent)}`,
    `highwater_durability_lag_seconds_bucket{level="${level}",le="0.05"} ${String(2 * sent)}`,
    `highwater_durability_lag_seconds_bucket{level="${level}",le="+Inf"} ${String(2 * sent)}`,
  ]);
  return [...nodes, ...levels, "highwater_epoch_age_seconds 60", ""].join("\n");
}
