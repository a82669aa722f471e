// Contents of a lost transaction must stay with their owner: strangers cannot read them, change
// them or erase them, and what the owner has erased does not come back. The primary fails once, at
// the first of these recipes.
import { eventually, putAhead, starve } from "@highwater/lab-system/testing";
import { type Caller, type CallResponse, described, newId } from "../caller.ts";
import { type Recipe } from "../recipe.ts";
import { type Target } from "../target.ts";

const SECRET = "a parcel for Bob";
const LIMIT_MS = 60_000;
const ERASED_MS = 20_000;

interface Loss {
  /** Crane's: lost, with contents. */
  readonly id: string;
  /** Crane's tag, which every operator sees. */
  readonly owner: string;
  /** Crane's key with `contents:read`. */
  readonly victim: Caller;
  /** By what a stranger could try it with. */
  readonly strangers: ReadonlyMap<string, Caller>;
  readonly operator: Caller;
  /** The trackers that still run and have the contents. */
  readonly trackers: readonly number[];
  /** A UUID that crane made before it erased anything, and has not used. */
  readonly early: string;
}

const losses = new WeakMap<Target, Promise<Loss>>();

function lossIn(target: Target): Promise<Loss> {
  const known = losses.get(target) ?? lose(target);
  losses.set(target, known);
  return known;
}

async function lose(target: Target): Promise<Loss> {
  const { system, other, writer } = target;
  const { cluster } = system;
  const [victim, snoop, operator] = await Promise.all([
    target.keyOf("crane", ["read", "write", "contents:read"]),
    target.keyOf("acme", ["read", "write", "webhooks", "contents:read"]),
    target.keyOf("acme", ["read", "write", "admin", "contents:read"]),
  ]);
  const { primary } = target;
  const [heir = "", last = ""] = cluster.nodes.map(({ id }) => id).filter((id) => id !== primary);
  await putAhead(system, { heir, other: last, primary });
  await starve(system, heir, primary);
  const id = newId();
  for (const [caller, schema] of [
    [other, "crane"],
    [writer, "acme"],
  ] as const) {
    const mine = caller === other ? id : newId();
    const sql = `INSERT INTO ${schema}.orders VALUES ('${mine}', '${SECRET}')`;
    const kept = await eventually("a transaction is kept", async () => {
      const answer = await caller.run([sql], { id: mine, keep: true });
      return answer.status === 503 ? undefined : answer;
    });
    if (kept.body["kept"] !== true) throw new Error(`it is not kept: ${described(kept)}`);
  }
  const early = newId();
  await eventually("all trackers have the contents", async () => {
    const kept = await target.trackerMetric("highwater_contents_transactions");
    return kept === 2 * system.regions.length;
  });
  await cluster.kill(primary);
  await cluster.promote(heir);
  const trackers = system.regions.map((_, at) => at);
  const [owner = ""] = await Promise.all(
    trackers.map((at) =>
      eventually(
        "every tracker gives the owner its contents",
        async () => {
          const answer = await read(victim, id, at);
          return textOf(answer).includes(SECRET) ? String(answer.body["owner"]) : undefined;
        },
        LIMIT_MS,
      ),
    ),
  );
  return {
    id,
    owner,
    victim,
    operator,
    trackers,
    early,
    strangers: new Map([
      ["acme's key with contents:read", snoop],
      ["acme's admin key with contents:read", operator],
      ["acme's read key", target.reader],
      ["acme's write key", writer],
      ["crane's key without contents:read", other],
      ["a key that does not exist", target.callerWith(`hwk_abcdefgh_${"A".repeat(43)}`)],
    ]),
  };
}

const textOf = ({ body }: CallResponse): string => JSON.stringify(body);

const read = (caller: Caller, id: string, at = 0): Promise<CallResponse> =>
  caller.send("tracker", `/v1/lost/${id}`, undefined, { at });

/** Null: every tracker still gives the owner its contents. */
async function whatIsGone({ id, victim, trackers }: Loss): Promise<string | null> {
  for (const at of trackers) {
    const answer = await read(victim, id, at);
    if (!textOf(answer).includes(SECRET)) return `tracker ${String(at)} answers ${described(answer)}`;
  }
  return null;
}

export const CONTENTS: readonly Recipe[] = [
  {
    item: "contents",
    isAlone: true,
    title: "keys of another owner, and keys without contents:read, ask for a lost transaction's contents",
    run: async (target) => {
      const { id, owner, strangers, trackers } = await lossIn(target);
      for (const [name, caller] of strangers)
        for (const at of trackers)
          for (const path of [
            ...[`/v1/lost/${id}`, `/v1/lost/${id.toUpperCase()}`, `/v1/lost/${id}?owner=${owner}`],
            ...["/v1/lost", `/v1/lost?owner=${owner}`, "/v1/lost?contents=kept&limit=1000"],
            ...[
              "/v1/durability/events?format=json&after=0.0",
              `/v1/durability/events?format=json&owner=${owner}`,
            ],
          ]) {
            const answer = await caller.send("tracker", path, undefined, { at });
            if (textOf(answer).includes(SECRET)) return `${name} reads ${path}: ${described(answer)}`;
            // Operators may list what was lost; the owner itself, too.
            const mayList = name.includes("admin") || name.startsWith("crane's");
            if (!mayList && textOf(answer).includes(id) && answer.status === 200)
              return `${name} learns of it by ${path}: ${described(answer)}`;
          }
      return null;
    },
  },
  {
    item: "contents",
    isAlone: true,
    title: "keys without admin, and roles with SQL, erase another owner's contents",
    run: async (target) => {
      const loss = await lossIn(target);
      const { owner, strangers, trackers } = loss;
      for (const [name, caller] of strangers) {
        if (name.includes("admin")) continue;
        for (const at of trackers) {
          const path = `/v1/lost/contents?owner=${owner}`;
          const answer = await caller.send("tracker", path, undefined, { at, method: "DELETE" });
          if (answer.status < 400) return `${name} erases: ${described(answer)}`;
        }
      }
      const mark = `INSERT INTO highwater.contents_erasure VALUES (${owner}, ${String(2 ** 48)})`;
      for (const caller of [target.writer, target.other]) await caller.run([mark]);
      const marks = await target.look("SELECT FROM highwater.contents_erasure", await target.primaryNow());
      return marks.length > 0 ? "a role has written the mark of an erasure" : whatIsGone(loss);
    },
  },
  {
    item: "contents",
    isAlone: true,
    title: "a stranger hands in contents under the lost transaction's id, and reports its answer",
    run: async (target) => {
      const loss = await lossIn(target);
      const { id, owner, strangers, trackers, victim } = loss;
      const before = await read(victim, id);
      const attempt = { id, epoch: before.body["attempt"], owner };
      const announcements = [
        { kind: "contents", ...attempt, offset: "1", sealed: Buffer.alloc(200, 1).toString("base64url") },
        { kind: "answered", ...attempt, answered: "no" },
      ];
      for (const [name, caller] of strangers)
        for (const at of trackers) {
          const answer = await caller.send(
            "tracker",
            "/internal/announcements",
            { gateway: "g", announcements },
            { at },
          );
          if (answer.status < 400) return `${name} hands in: ${described(answer)}`;
        }
      const after = await read(victim, id);
      return textOf(after) === textOf(before)
        ? whatIsGone(loss)
        : `it was ${described(before)}, and is ${described(after)}`;
    },
  },
  {
    item: "contents",
    isAlone: true,
    title: "contents come back after their erasure: from another tracker, and by a transaction of before",
    run: async (target) => {
      const { id, owner, operator, victim, trackers, early } = await lossIn(target);
      const erased = await operator.send("tracker", `/v1/lost/contents?owner=${owner}`, undefined, {
        at: trackers.at(-1) ?? 0,
        method: "DELETE",
      });
      if (erased.status !== 200) throw new Error(`the operator cannot erase: ${described(erased)}`);
      for (const caller of [target.writer, target.other])
        await caller.run(["DELETE FROM highwater.contents_erasure"]);
      await eventually(
        "every tracker has erased the contents",
        async () => {
          const answers = trackers.map((at) => read(victim, id, at));
          return (await Promise.all(answers)).every(({ body }) => body["contents"] === "erased");
        },
        ERASED_MS,
      );
      for (const region of target.system.regions) await target.system.restartService(region, "tracker");
      for (const at of trackers) {
        const answer = await eventually("the tracker answers again", async () => {
          const found = await read(victim, id, at);
          return found.status === 503 ? undefined : found;
        });
        if (answer.body["contents"] !== "erased" || textOf(answer).includes(SECRET))
          return `tracker ${String(at)} has them again: ${described(answer)}`;
      }
      const sql = `INSERT INTO crane.orders VALUES ('${early}', '${SECRET}')`;
      const late = await eventually("the late transaction is answered", async () => {
        const answer = await victim.run([sql], { id: early, keep: true });
        return answer.status === 503 ? undefined : answer;
      });
      return late.body["kept"] === false ? null : `contents handed in late: ${described(late)}`;
    },
  },
];
