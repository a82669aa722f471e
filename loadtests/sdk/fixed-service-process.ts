// A gateway and a tracker in one that always give the same answers: what a client costs is then the
// client's alone, and neither a database nor its neighbours on the machine are measured with it.
// The answers are those of the real services; a test holds them against the schemas. Prints its
// address, and ends with its parent.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { decodeToken, type EpochId, type Marks } from "@highwater/protocol";
import { epochRecord } from "@highwater/protocol/testing";
import { testDeploymentKeys, testToken } from "@highwater/service/testing";
import { newId } from "../gateway/http-client.ts";
import { PATHS, type ServiceState } from "./protocol.ts";

const EPOCH = "0198a1b2-0000-7000-8000-000000000001" as EpochId;
const LEVEL = "region";

/** Where the log's end is: everything that was handed out is at or below it. */
let offset = 1_000;
let markedAtNs = 0n;
let questions = 0;
let number = 0;
const streams = new Set<ServerResponse>();

const marksAt = (reached: number): Marks => ({
  epoch: EPOCH,
  seq: 1,
  levels: { disk: String(reached), [LEVEL]: String(reached) },
});
/** Never moves in the answers: what settles a promise is the stream. */
const FIRST_MARKS = marksAt(offset);

const KEYS = testDeploymentKeys();

const tokenAt = (id: string, at: number): string => testToken({ id, epoch: EPOCH, offset: BigInt(at) }, KEYS);

const RESULTS = [
  { command: "UPDATE", rowCount: 1, fields: [], rows: [] },
  { command: "SELECT", rowCount: 1, fields: [{ name: "n", oid: 23 }], rows: [["1"]] },
];

function committed(id: string): object {
  return {
    id,
    state: "committed",
    token: FIXED_TOKEN,
    position: { epoch: EPOCH, offset: String(offset) },
    results: RESULTS,
    marks: FIRST_MARKS,
    announced: true,
  };
}
const FIXED_TOKEN = tokenAt(newId(), offset);

const EPOCHS = [epochRecord(EPOCH)];

function event(type: string, data: unknown): string {
  number += 1;
  return `id: 1.${String(number)}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
}

function pending(token: string, level: string): object {
  const content = decodeToken(token);
  if (content === undefined) throw new Error(`not a token: ${token}`);
  const position = { epoch: content.epoch, offset: String(content.offset) };
  return { token, id: content.id, verdict: "pending", level, position, rule: "bench" };
}

/** New tokens of distinct offsets above every mark that was sent. */
function tokens(count: number): string[] {
  return Array.from({ length: count }, () => tokenAt(newId(), (offset += 1)));
}

function answer(path: string, body: unknown): unknown {
  if (path.startsWith(PATHS.tokens)) return tokens(Number(path.split("=")[1]));
  switch (path) {
    case PATHS.commit:
      return committed((body as { id: string }).id);
    case "/v1/durability/verdicts": {
      const { tokens: asked, level = LEVEL } = body as { tokens: readonly string[]; level?: string };
      questions += asked.length;
      return { verdicts: asked.map((token) => pending(token, level)), marks: null };
    }
    case "/v1/durability/marks":
      return { marks: FIRST_MARKS, levels: ["disk", LEVEL], epochs: EPOCHS };
    case PATHS.mark: {
      const text = event("mark", marksAt(offset));
      markedAtNs = process.hrtime.bigint();
      for (const stream of streams) stream.write(text);
      return state();
    }
    case PATHS.state:
      return state();
    default:
      return undefined;
  }
}

function state(): ServiceState {
  return { streams: streams.size, questions, markedAtNs: String(markedAtNs) };
}

function serve(request: IncomingMessage, response: ServerResponse, text: string): void {
  const path = request.url ?? "/";
  if (path.startsWith(PATHS.stream)) {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
    response.write(`: connected\n\n${event("epoch", { epochs: EPOCHS })}${event("mark", FIRST_MARKS)}`);
    streams.add(response);
    response.on("close", () => streams.delete(response));
    return;
  }
  const body: unknown = text === "" ? undefined : JSON.parse(text);
  const isBatch = path === `${PATHS.commit}/batch`;
  const found = isBatch ? lines(body) : answer(path, body);
  if (found === undefined) response.writeHead(404).end();
  else {
    const out = typeof found === "string" ? found : JSON.stringify(found);
    response.writeHead(200, {
      "content-type": isBatch ? "application/x-ndjson" : "application/json",
      "content-length": Buffer.byteLength(out),
    });
    response.end(out);
  }
}

function lines(body: unknown): string {
  const { transactions } = body as { transactions: readonly { readonly id: string }[] };
  return transactions
    .map(({ id }, index) => `${JSON.stringify({ index, status: 200, body: committed(id) })}\n`)
    .join("");
}

// As a tracker does: a stream that says nothing for long is taken for dead.
setInterval(() => {
  for (const stream of streams) stream.write(": alive\n\n");
}, 5_000);

const server = createServer({ keepAliveTimeout: 75_000 }, (request, response) => {
  let text = "";
  request.setEncoding("utf8").on("data", (part: string) => (text += part));
  request.on("end", () => {
    serve(request, response, text);
  });
});
server.listen(0, "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${String((server.address() as AddressInfo).port)}`);
});
process.stdin.resume().on("end", () => process.exit(0));
