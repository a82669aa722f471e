// Sends requests as raw bytes over a socket, unlike any HTTP client, and reads the answers.
import assert from "node:assert/strict";
import { connect } from "node:net";
import { type ErrorCode, ERRORS } from "@highwater/protocol";

export interface HttpReply {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  /** As far as it was read: only the beginning of a stream. */
  readonly body: string;
}

const LIMIT_MS = 15_000;
/** A server that has not answered by then waits for more input, so the client ends its side. */
const PATIENCE_MS = 80;

export interface Sending {
  /** The request is complete, so the server has nothing to wait for. */
  readonly isComplete: boolean;
}

/** The answers on one connection, in order; empty if the server closed it. */
export function send(base: string, request: Buffer, { isComplete }: Sending): Promise<HttpReply[]> {
  const { hostname, port } = new URL(base);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    let received = Buffer.alloc(0);
    const limit = setTimeout(() => {
      finish(() => {
        reject(new Error(`neither an answer nor an end within ${String(LIMIT_MS)} ms`));
      });
    }, LIMIT_MS);
    const patience = setTimeout(() => {
      if (!isComplete) socket.end();
    }, PATIENCE_MS);
    const finish = (settle: () => void): void => {
      clearTimeout(limit);
      clearTimeout(patience);
      socket.destroy();
      settle();
    };
    const done = (): void => {
      finish(() => {
        try {
          resolve(parseAnswers(received).answers);
        } catch (cause) {
          reject(cause instanceof Error ? cause : new Error(String(cause)));
        }
      });
    };
    socket.on("data", (bytes) => {
      received = Buffer.concat([received, bytes]);
      try {
        const { answers, isStreaming } = parseAnswers(received);
        if (isStreaming || (isComplete && answers.length > 0)) done();
      } catch {
        // The caller parses the answers again and gets this error.
        done();
      }
    });
    socket.on("close", done);
    socket.on("error", () => undefined);
    socket.write(request);
  });
}

/** The complete answers. Throws if the bytes are not HTTP. */
function parseAnswers(bytes: Buffer): { readonly answers: HttpReply[]; readonly isStreaming: boolean } {
  const answers: HttpReply[] = [];
  let rest = bytes;
  for (;;) {
    const end = rest.indexOf("\r\n\r\n");
    if (end < 0) return { answers, isStreaming: false };
    const [first = "", ...lines] = rest.subarray(0, end).toString("latin1").split("\r\n");
    const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(first)?.[1]);
    assert.ok(status >= 100, `no HTTP answer: ${first}`);
    const headers = new Map(
      lines.map((line): [string, string] => {
        const at = line.indexOf(":");
        return [line.slice(0, at).toLowerCase(), line.slice(at + 1).trim()];
      }),
    );
    rest = rest.subarray(end + 4);
    if (status < 200) continue;
    const type = headers.get("content-type") ?? "";
    if (type.startsWith("text/event-stream")) {
      answers.push({ status, headers, body: rest.toString("utf8") });
      return { answers, isStreaming: rest.length > 0 };
    }
    if (headers.get("transfer-encoding") === "chunked") {
      const whole = readChunks(rest);
      if (whole === null) return { answers, isStreaming: false };
      answers.push({ status, headers, body: whole.body });
      rest = whole.rest;
      continue;
    }
    const length = Number(headers.get("content-length") ?? 0);
    if (rest.length < length) {
      // An answer to HEAD has only the length.
      return { answers: [...answers, { status, headers, body: "" }], isStreaming: false };
    }
    answers.push({ status, headers, body: rest.subarray(0, length).toString("utf8") });
    rest = rest.subarray(length);
  }
}

/** Null while the last chunk is missing. */
function readChunks(bytes: Buffer): { readonly body: string; readonly rest: Buffer } | null {
  const parts: Buffer[] = [];
  for (let rest = bytes; ;) {
    const end = rest.indexOf("\r\n");
    const size = end < 0 ? Number.NaN : Number.parseInt(rest.subarray(0, end).toString("latin1"), 16);
    if (Number.isNaN(size) || rest.length < end + 4 + size) return null;
    parts.push(rest.subarray(end + 2, end + 2 + size));
    rest = rest.subarray(end + 4 + size);
    if (size === 0) return { body: Buffer.concat(parts).toString("utf8"), rest };
  }
}

/** Errors that a healthy service may return for any request. */
const TEMPORARY: ReadonlySet<ErrorCode> = new Set(["overloaded", "too_many_open", "transaction_in_progress"]);

/**
 * Requires that an answer is a success, or names the fault of the request by a code of the
 * catalogue.
 */
export function assertAnswer({ status, headers, body }: HttpReply, isNeon: boolean): void {
  const about = `${String(status)} ${body.slice(0, 300)}`;
  const type = headers.get("content-type") ?? "";
  if (status < 400) {
    if (body !== "" && type.startsWith("application/json")) JSON.parse(body);
    return;
  }
  // Node itself answered before our code ran.
  if (body === "" && !type.includes("json")) {
    assert.ok([400, 408, 417, 431].includes(status) || headers.get("content-length") !== "0", about);
    return;
  }
  const parsed = JSON.parse(body) as { code?: unknown; highwater?: { code?: unknown } };
  const code = (isNeon && parsed.highwater !== undefined ? parsed.highwater.code : parsed.code) as ErrorCode;
  assert.ok(code in ERRORS, `no code of the catalogue: ${about}`);
  if (!isNeon) assert.match(type, /^application\/problem\+json/, about);
  assert.ok(status < 500 || TEMPORARY.has(code), `the service has failed: ${about}`);
  assert.notEqual(code, "internal");
}
