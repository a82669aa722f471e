// Attacks by a stranger on a gateway's PostgreSQL port.
import { bind, execute, int32, parse, query, startup, sync } from "../../wire/frames.ts";
import { placeOf, RawSession } from "../../wire/session.ts";
import { errorOf, rowsOf, tokenOf } from "../answers.ts";
import { newId } from "../caller.ts";
import { type Recipe } from "../recipe.ts";
import { type Target } from "../target.ts";

const CONNECTIONS = 2_000;
const GUESSES = 300;
const CANCEL_REQUEST = 80_877_102;
const STARTUP_BYTES_MAX = 10_000;
/** Settings that make the server print values. */
const VERBOSE = [
  "highwater.ack=commit",
  "client_min_messages=log",
  "debug_print_plan=on",
  "log_parameter_max_length_on_error=-1",
]
  .map((setting) => `-c ${setting}`)
  .join(" ");

/** What the session let in; null when it was refused. */
async function entered(
  target: Target,
  role: string,
  password: string,
  parameters?: Readonly<Record<string, string>>,
): Promise<string | null> {
  try {
    const session = await target.openSession(role, password, parameters);
    session.destroy();
    return `a session of ${role}`;
  } catch {
    return null;
  }
}

export const WIRE: readonly Recipe[] = [
  {
    item: "wire",
    title: "a key, or no key, opens a session of a role that is not its own",
    run: async (target) => {
      const { writer, other } = target;
      const session = await target.openSession("acme_write", writer.key);
      session.destroy();
      for (const [role, password] of [
        ["acme_write", ""],
        ["acme_write", "acme writes"],
        ["acme_write", other.key],
        ["acme_write", `${writer.key}x`],
        // The cluster's own rules trust these roles from this machine.
        ["postgres", writer.key],
        ["app", writer.key],
        ["highwater_service", writer.key],
      ] as const) {
        const got = await entered(target, role, password);
        if (got !== null) return `${got} with a password that is not its key`;
      }
      return null;
    },
  },
  {
    item: "wire",
    title: "a key opens a replication connection",
    run: async (target) => {
      for (const replication of ["true", "database", "on", "1"]) {
        const got = await entered(target, "acme_write", target.writer.key, { replication });
        if (got !== null) return `${got} with replication=${replication}`;
      }
      return null;
    },
  },
  {
    item: "wire",
    title: "a first packet without a bound takes memory, or its sender is kept waiting for more",
    run: async ({ system }) => {
      const place = placeOf(system.pgUrl(system.regions[0] ?? ""));
      for (const bytes of [
        int32(0x7fff_ffff, 196_608),
        int32(-1, 196_608),
        int32(3),
        startup({ user: "acme_write", application_name: "x".repeat(STARTUP_BYTES_MAX) }),
      ]) {
        const session = await RawSession.connect(place);
        session.send(bytes);
        await session.untilEnd();
        if (session.frames.some(({ type }) => type === "R")) return "it was asked for its password";
      }
      return null;
    },
  },
  {
    item: "wire",
    title: "a stranger cancels another tenant's statement with a guessed key",
    run: async (target) => {
      const victim = await target.openSession("crane_write", target.other.key);
      try {
        const place = placeOf(target.system.pgUrl(target.system.regions[0] ?? ""));
        const [[pid] = []] = rowsOf(await victim.ask(query("SELECT pg_backend_pid()")));
        const slept = victim.ask(query("SELECT pg_sleep(2)"));
        for (let guess = 0; guess < GUESSES; guess++) {
          const session = await RawSession.connect(place);
          session.send(int32(16, CANCEL_REQUEST, Number(pid ?? 0), guess * 7_919));
          await session.untilEnd();
        }
        const error = errorOf(await slept, "C");
        return error === null ? null : `it ended with ${error}`;
      } finally {
        victim.destroy();
      }
    },
  },
  {
    item: "wire",
    title: "a key judges the token of another tenant's transaction on the wire",
    run: async (target) => {
      const session = await target.openSession("crane_write", target.other.key, {
        options: "-c highwater.ack=commit",
      });
      try {
        await session.ask(query("BEGIN"));
        await session.ask(query("INSERT INTO crane.orders VALUES (gen_random_uuid()::text, 'by wire')"));
        const token = tokenOf(await session.ask(query("COMMIT")));
        if (token === "") return "its own client gets no token";
        const own = await target.other.verdicts([token]);
        if (own.status !== 200) return `its own key is answered ${String(own.status)}`;
        const { status, body } = await target.writer.verdicts([token]);
        const text = JSON.stringify(body);
        return status === 200 && /"(?:durable|pending|lost|broken)"/.test(text) ? text : null;
      } finally {
        session.destroy();
      }
    },
  },
  {
    item: "wire",
    title: "a session reads the tag of its receipt in notices and errors of the gateway's statements",
    run: async (target) => {
      const session = await target.openSession("acme_write", target.writer.key, { options: VERBOSE });
      try {
        const INSERT = "INSERT INTO acme.orders VALUES (gen_random_uuid()::text, 'by wire')";
        const step = (sql: string): Buffer => Buffer.concat([parse("", sql), bind("", ""), execute("")]);
        const ids: string[] = [];
        for (const sent of [
          [query(INSERT)],
          [Buffer.concat([step(INSERT), sync()])],
          [query("BEGIN"), query(INSERT), query("COMMIT")],
          [Buffer.concat([step("BEGIN"), step(INSERT), step("COMMIT"), sync()])],
          // With the id of the previous transaction, so its receipt is refused.
          [query(INSERT)],
        ]) {
          if (ids.length < 4) ids.push(newId());
          await session.ask(query(`SET highwater.id = '${ids.at(-1) ?? ""}'`));
          for (const bytes of sent) await session.ask(bytes);
        }
        const rows = await target.look(
          `SELECT tag FROM highwater.receipt WHERE id IN (${ids.map((id) => `'${id}'`).join()})`,
        );
        if (rows.length !== ids.length) return `only ${String(rows.length)} transactions have receipts`;
        const said = session.frames
          .filter(({ type }) => type === "N" || type === "E")
          .map(({ body }) => body.toString("latin1"));
        if (!said.some((text) => text.includes("PLANNEDSTMT"))) return "no plans were printed";
        for (const { tag } of rows) {
          // In a printed plan a constant appears as signed bytes.
          const hex = String(tag).replaceAll("-", "");
          const bytes = [...new Int8Array(Buffer.from(hex, "hex"))].join(" ");
          if (said.some((text) => [String(tag), hex, bytes].some((form) => text.includes(form))))
            return `tag ${String(tag)}`;
        }
        return null;
      } finally {
        session.destroy();
      }
    },
  },
  {
    item: "wire",
    title: "2,000 connections that never log in keep another tenant out",
    run: async (target) => {
      const place = placeOf(target.system.pgUrl(target.system.regions[0] ?? "", "acme_write"));
      const sessions: RawSession[] = [];
      try {
        for (let count = 0; count < CONNECTIONS; count++) {
          const session = await RawSession.connect(place).catch(() => null);
          if (session === null) break;
          sessions.push(session);
          if (count % 2 === 0) session.send(startup({ user: place.user, database: place.database }));
        }
        const got = await entered(target, "crane_write", target.other.key);
        return got === null ? "another tenant is refused" : null;
      } finally {
        for (const session of sessions) session.destroy();
      }
    },
  },
];
