// Attacks on entries that are not meant for strangers.
import { request } from "node:http";
import { text } from "node:stream/consumers";
import { classOf, describeError, type ErrorCode, ERRORS } from "@highwater/protocol";
import { newId } from "../caller.ts";
import { type Recipe } from "../recipe.ts";

const REVOKED_WITHIN_MS = 30_000;
const CODES = Object.keys(ERRORS) as ErrorCode[];
/** The published descriptions of errors, by path. */
const PUBLISHED: ReadonlyMap<string, string> = new Map([
  ["/errors", JSON.stringify({ errors: CODES.map(classOf) })],
  ...CODES.map((code) => [`/errors/${code}`, JSON.stringify(describeError(code))] as const),
]);
const PLAIN_HEADERS = /^(?:content-type|content-length|date|connection|keep-alive)$/;
const BODY = "x".repeat(32 * 1_024 * 1_024);
const LONG = "x".repeat(9_000);

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly headers: readonly string[];
}

/** Sends no credential, and a path that nothing has normalised. */
function stranger(url: string, path: string, method = "GET", body = ""): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request(url, { path, method, headers: { "content-length": body.length } });
    asked.on("response", (response) => {
      const { statusCode = 0, headers } = response;
      text(response).then((answer) => {
        resolve({ status: statusCode, text: answer, headers: Object.keys(headers) });
      }, reject);
    });
    asked.on("error", reject);
    asked.end(body);
  });
}

export const DOORS: readonly Recipe[] = [
  {
    item: "14",
    title: "a key announces to a tracker as if it were a gateway",
    run: async ({ writer, reader }) => {
      const batch = {
        gateway: "mallory",
        announcements: [{ kind: "intent", id: newId(), epoch: newId() }],
      };
      for (const caller of [writer, reader]) {
        const { status } = await caller.send("tracker", "/internal/announcements", batch);
        if (status !== 403 && status !== 401) return `answered ${String(status)}`;
      }
      return null;
    },
  },
  {
    item: "14",
    title:
      "a tenant or a stranger reads tenants' keys and the limits of gateways, or reports limits as if it were one",
    run: async ({ writer, reader, system }) => {
      const report = { gateway: "us-east", region: "us-east", level: "region", limits: [] };
      const { url } = system.tracker(system.regions[0] ?? "");
      for (const path of ["/v1/keys", "/v1/durability/exposure/limits"]) {
        const { status, text } = await stranger(url, path);
        if (status !== 401) return `${path} answered a stranger ${String(status)}: ${text}`;
      }
      for (const caller of [writer, reader]) {
        const answers = [
          await caller.send("tracker", "/v1/keys", undefined),
          await caller.send("tracker", "/v1/durability/exposure/limits", undefined),
          await caller.send("tracker", "/internal/exposure-limits", report),
        ];
        const wrong = answers.find(({ status }) => status !== 403);
        if (wrong !== undefined) return `answered ${String(wrong.status)}: ${JSON.stringify(wrong.body)}`;
      }
      return null;
    },
  },
  {
    item: "15",
    title: "a stream outlives the revocation of its key",
    run: async (target) => {
      const key = await target.system.createKey({
        name: "short",
        owner: "acme",
        role: "acme_read",
        scopes: ["read"],
      });
      const url = target.system.tracker(target.system.regions[0] ?? "").url;
      const limit = new AbortController();
      const response = await fetch(`${url}/v1/durability/stream`, {
        headers: { authorization: `Bearer ${key}` },
        signal: limit.signal,
      });
      if (response.status !== 200) return `a new key is answered ${String(response.status)}`;
      await target.system.revokeKey(key);
      const timer = setTimeout(() => {
        limit.abort();
      }, REVOKED_WITHIN_MS);
      const reader = response.body?.getReader();
      try {
        while ((await reader?.read())?.done === false);
      } catch {
        // The tracker should cut it off before this limit.
      } finally {
        clearTimeout(timer);
      }
      return limit.signal.aborted ? `it is open ${String(REVOKED_WITHIN_MS)} ms later` : null;
    },
  },
  {
    item: "errors",
    title: "a stranger without a key learns more than what is published at /errors, or gets a body in there",
    run: async ({ system }) => {
      const region = system.regions[0] ?? "";
      for (const { url } of [system.gateway(region), system.tracker(region)]) {
        for (const [path, published] of PUBLISHED) {
          const answer = await stranger(url, path);
          if (answer.status !== 200 || answer.text !== published) return `${path} is ${answer.text}`;
          const header = answer.headers.find((name) => !PLAIN_HEADERS.test(name));
          if (header !== undefined) return `${path} has the header ${header}`;
        }
        for (const name of [newId(), "..%2fmetrics", "%2e%2e/metrics", "../metrics", "__proto__", LONG]) {
          const { status } = await stranger(url, `/errors/${name}`);
          if (status !== 404 && status !== 400) return `${name.slice(0, 20)} is answered ${String(status)}`;
        }
        for (const method of ["POST", "PUT", "PATCH", "DELETE"]) {
          const { status } = await stranger(url, "/errors", method, "{}");
          if (status !== 405) return `${method} is answered ${String(status)}`;
        }
        const answer = await stranger(url, "/errors", "GET", BODY);
        if (answer.text !== PUBLISHED.get("/errors")) return `a GET with a body is answered ${answer.text}`;
      }
      return null;
    },
  },
];
