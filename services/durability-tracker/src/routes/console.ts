// GET /console: the page for operators, and its files. They are built into a folder beside the
// service; a tracker without them serves everything else. No credential: the page itself shows
// nothing, and asks for a key where the tracker does.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { HighwaterError } from "@highwater/protocol";

export interface ConsoleContext {
  readonly folder: string;
  /** What the page says of this tracker. */
  readonly tracker: string;
  readonly region: string;
  /** The rule that names the primary. */
  readonly authority: string;
}

const FILES: Readonly<Record<string, { readonly file: string; readonly type: string }>> = {
  "/console": { file: "index.html", type: "text/html; charset=utf-8" },
  "/console/app.js": { file: "app.js", type: "text/javascript; charset=utf-8" },
  "/console/app.css": { file: "app.css", type: "text/css; charset=utf-8" },
  "/console/icon.svg": { file: "icon.svg", type: "image/svg+xml" },
};

const POLICY = [
  "default-src 'none'",
  ...["script-src", "style-src", "connect-src", "img-src"].map((name) => `${name} 'self'`),
  ...["base-uri", "form-action", "frame-ancestors"].map((name) => `${name} 'none'`),
].join("; ");

const HEADERS = {
  "content-security-policy": POLICY,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cache-control": "no-cache",
  vary: "accept-encoding",
} as const;

interface Served {
  readonly plain: Buffer;
  /** Null: the file is too small to be worth it. */
  readonly packed: Buffer | null;
  readonly tag: string;
}

export function consoleRoutes(app: FastifyInstance, context: ConsoleContext): void {
  const known = new Map<string, Served>();
  for (const [path, { file, type }] of Object.entries(FILES))
    app.get(path, async (request, reply) => {
      const served = known.get(file) ?? (await read(file, context));
      known.set(file, served);
      void reply.headers(HEADERS).type(type);
      return send(request, reply, served);
    });
}

function send(
  { headers }: FastifyRequest,
  reply: FastifyReply,
  { plain, packed, tag }: Served,
): FastifyReply {
  void reply.header("etag", tag);
  if (headers["if-none-match"] === tag) return reply.code(304).send();
  const takesPacked = /\bgzip\b/.test(String(headers["accept-encoding"] ?? ""));
  if (packed === null || !takesPacked) return reply.send(plain);
  return reply.header("content-encoding", "gzip").send(packed);
}

async function read(file: string, context: ConsoleContext): Promise<Served> {
  const path = join(context.folder, file);
  try {
    const isPage = file === "index.html";
    const found = await readFile(path);
    const plain = isPage ? Buffer.from(filledIn(found.toString("utf8"), context)) : found;
    const packed = isPage ? null : await readFile(`${path}.gz`);
    return {
      plain,
      packed,
      tag: `W/"${createHash("sha256").update(plain).digest("base64url").slice(0, 22)}"`,
    };
  } catch (cause) {
    throw new HighwaterError(
      "not_found",
      { detail: "The console is not built on this machine. Run `make console`, then load the page again." },
      { cause },
    );
  }
}

function filledIn(page: string, context: ConsoleContext): string {
  // Settings hold nothing in them that HTML would read.
  return page.replaceAll(
    /\{\{(tracker|region|authority)\}\}/g,
    (_, name: keyof ConsoleContext) => context[name],
  );
}
