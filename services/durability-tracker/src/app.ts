// The tracker's HTTP face: reads what the core knows, hands it what gateways announce. No rules here.
import Fastify, { type FastifyInstance, type FastifyRequest } from "fastify";
import {
  AnnouncementBatch,
  decodeToken,
  HighwaterError,
  type Offset,
  type EpochId,
  type TokenContent,
  type TokenVerdict,
  type TxnId,
  validate,
  VerdictsRequest,
} from "@highwater/protocol";
import { type Clock, sleep, type Store } from "@highwater/store";
import { type Config } from "./config.ts";
import { type AnnouncedItem, judge, type Published } from "./core/index.ts";
import { type LedgerFile } from "./shell/ledger-file.ts";
import { type Log } from "./shell/log.ts";
import { TrackerLoop } from "./shell/loop.ts";
import { metricsText } from "./shell/metrics.ts";
import { runRetention } from "./shell/retention.ts";
import { currentMarks, MarkStream } from "./shell/stream.ts";

export interface TrackerDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly ledger: LedgerFile;
  readonly log: Log;
}

export interface Tracker {
  readonly app: FastifyInstance;
  readonly loop: TrackerLoop;
  start(): Promise<void>;
  close(): Promise<void>;
}

/** Two looks at the same pending tokens are at least so far apart. */
const REJUDGE_MS = 2;

export function buildTracker(config: Config, deps: TrackerDeps): Tracker {
  const { clock, ledger, log, store } = deps;
  const stream = new MarkStream();
  const told: Told = { lost: 0, broken: 0 };
  const stopping = new AbortController();
  const loop = new TrackerLoop(config, deps, {
    onMarks: () => {
      stream.publishMarks(loop.state);
    },
    onEpochs: () => {
      stream.publishEpochs(loop.state);
    },
    onVerdict: (published) => {
      tell(published, told, log);
    },
  });
  const app = Fastify({ logger: false, bodyLimit: config.bodyLimitBytes, forceCloseConnections: true });
  installErrors(app, log);

  addRoutes(app, { config, clock, ledger, loop, stream, told });

  return {
    app,
    loop,
    start: async () => {
      await loop.start();
      void beat(stream, clock, config.heartbeatMs, stopping.signal);
      void runRetention({
        store,
        clock,
        log,
        retentionMs: config.retentionMs,
        everyMs: config.maintainMs,
        state: () => loop.state,
        signal: stopping.signal,
      });
    },
    close: async () => {
      stopping.abort();
      loop.stop();
      stream.close();
      await app.close();
      await ledger.close();
      await store.close();
    },
  };
}

interface Face {
  readonly config: Config;
  readonly clock: Clock;
  readonly ledger: LedgerFile;
  readonly loop: TrackerLoop;
  readonly stream: MarkStream;
  readonly told: Told;
}

interface Told {
  lost: number;
  broken: number;
}

function addRoutes(app: FastifyInstance, { config, clock, ledger, loop, stream, told }: Face): void {
  app.get("/v1/durability/marks", () => ({
    marks: currentMarks(loop.state),
    levels: loop.state.config.levels.map(({ name }) => name),
    epochs: loop.state.ancestry,
  }));
  app.get("/v1/durability/stream", (_request, reply) => {
    reply.hijack();
    stream.add(reply.raw, loop.state);
  });
  app.post("/v1/durability/verdicts", (request) => answerVerdicts(request, config, loop, clock));
  app.post("/internal/announcements", async (request, reply) => {
    const checked = validate(AnnouncementBatch, request.body);
    if (!checked.ok) throw invalid(checked.faults);
    const items = checked.value.announcements.map(announcedItem);
    loop.dispatch({ kind: "announced", nowMs: clock.monotonicMs(), items });
    await ledger.flush();
    return reply.code(204).send();
  });
  app.get("/healthz", () => ({ status: "ok" }));
  app.get("/readyz", (_request, reply) => {
    const { standing } = loop.state;
    if (standing.kind === "reigning") return { status: "ready", epoch: standing.epoch, node: standing.node };
    return reply.code(503).send({ status: "not ready", reason: standing.reason, splitBrain: standing.split });
  });
  app.get("/metrics", (_request, reply) =>
    reply.type("text/plain; version=0.0.4").send(metricsText(loop.state, stream.size, told)),
  );
}

function tell(published: Published, told: Told, log: Log): void {
  const verdicts = Object.values(published.verdicts);
  if (verdicts.includes("broken")) {
    told.broken++;
    log.error("promise broken", { ...published });
  } else {
    told.lost++;
    log.warn("transaction lost", { ...published });
  }
}

async function beat(stream: MarkStream, clock: Clock, everyMs: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await sleep(clock, everyMs, signal);
    stream.heartbeat();
  }
}

function announcedItem(item: AnnouncementBatch["announcements"][number]): AnnouncedItem {
  const base = {
    kind: item.kind,
    id: item.id.toLowerCase() as TxnId,
    epoch: item.epoch.toLowerCase() as EpochId,
  };
  if (item.kind === "position") return { ...base, offset: BigInt(item.offset) as Offset };
  return item.kind === "intent" && item.metadata !== undefined ? { ...base, metadata: item.metadata } : base;
}

async function answerVerdicts(
  request: FastifyRequest,
  config: Config,
  loop: TrackerLoop,
  clock: Clock,
): Promise<{ verdicts: TokenVerdict[]; marks: unknown }> {
  const checked = validate(VerdictsRequest, request.body);
  if (!checked.ok) throw invalid(checked.faults);
  const names = Object.keys(config.topology.levels);
  const level = checked.value.level ?? (names.includes("region") ? "region" : (names.at(-1) ?? ""));
  if (!names.includes(level))
    throw new HighwaterError("unknown_level", {
      detail: `Level ${level} is not configured; there are ${names.join(", ")}.`,
    });
  const tokens = checked.value.tokens.map((text) => {
    const content = decodeToken(text);
    if (content === undefined)
      throw new HighwaterError("invalid_token", { detail: `Not a token: ${text.slice(0, 40)}` });
    return { text, content };
  });
  const verdicts = new Map<string, TokenVerdict>();
  const judgeAll = (): boolean => {
    for (const { text, content } of tokens) {
      if ((verdicts.get(text)?.verdict ?? "pending") === "pending")
        verdicts.set(text, judgeToken(loop, clock, text, content, level));
    }
    return [...verdicts.values()].every(({ verdict }) => verdict !== "pending");
  };
  const deadlineMs = clock.monotonicMs() + (checked.value.waitMs ?? 0);
  let settled = judgeAll();
  if (!settled && checked.value.waitMs !== undefined)
    await loop.whileInterested(async () => {
      while (!settled && clock.monotonicMs() < deadlineMs && !request.raw.socket.destroyed) {
        await changeOrDeadline(loop, clock, deadlineMs);
        settled = judgeAll();
        if (!settled) await sleep(clock, REJUDGE_MS);
      }
    });
  return {
    verdicts: tokens.flatMap(({ text }) => verdicts.get(text) ?? []),
    marks: currentMarks(loop.state),
  };
}

async function changeOrDeadline(loop: TrackerLoop, clock: Clock, deadlineMs: number): Promise<void> {
  const timeout = new AbortController();
  await Promise.race([
    loop.changed,
    sleep(clock, Math.max(0, deadlineMs - clock.monotonicMs()), timeout.signal),
  ]);
  timeout.abort();
}

function judgeToken(
  loop: TrackerLoop,
  clock: Clock,
  text: string,
  content: TokenContent,
  level: string,
): TokenVerdict {
  const place = { epoch: content.epoch, offset: content.offset };
  const about = { id: content.id, attempt: content.attempt, kind: content.kind, place };
  let judged = judge(loop.state, about, level);
  if (judged.needsProof) {
    loop.dispatch({
      kind: "token_presented",
      nowMs: clock.monotonicMs(),
      id: content.id,
      attempt: content.attempt,
      tokenKind: content.kind,
      place,
    });
    judged = judge(loop.state, about, level);
  }
  return {
    token: text,
    id: content.id,
    verdict: judged.verdict,
    level,
    position: { epoch: judged.place.epoch, offset: judged.place.offset.toString() },
    rule: judged.rule,
    ...(judged.retriedIn === null ? {} : { retriedIn: judged.retriedIn }),
    ...(judged.settledAt === null ? {} : { settledAt: judged.settledAt }),
  };
}

function invalid(faults: string[]): HighwaterError {
  return new HighwaterError("invalid_request", { detail: faults.join("; "), fields: faults });
}

function installErrors(app: FastifyInstance, log: Log): void {
  app.setNotFoundHandler((_request, reply) => {
    const problem = new HighwaterError("not_found").toProblem();
    return reply.code(problem.status).type("application/problem+json").send(problem);
  });
  app.setErrorHandler((cause: unknown, _request, reply) => {
    const problem = asHighwaterError(cause, log).toProblem();
    return reply.code(problem.status).type("application/problem+json").send(problem);
  });
}

function asHighwaterError(cause: unknown, log: Log): HighwaterError {
  if (cause instanceof HighwaterError) return cause;
  const { statusCode, message } = cause as { statusCode?: number; message?: string };
  if (statusCode === 413) return new HighwaterError("body_too_large");
  if (statusCode === 415) return new HighwaterError("unsupported_media_type");
  if (statusCode === 400) return new HighwaterError("invalid_request", { detail: message });
  log.error("request failed", { cause: String(cause) });
  return new HighwaterError("internal", {}, { cause });
}
