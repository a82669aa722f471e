// Attacks by the holder of a key whose session on a gateway's PostgreSQL port is open, and by
// someone between client and port who inserts bytes before the encryption.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { connect as connectTls, getCACertificates, setDefaultCACertificates } from "node:tls";
import { System } from "@highwater/lab-system";
import { makeAuthority } from "@highwater/lab-tools/process/certificate";
import { int32, message, query, startup, text } from "../../wire/frames.ts";
import { placeOf, type RawSession } from "../../wire/session.ts";
import { newId } from "../caller.ts";
import { errorOf, rowsOf, tokenOf } from "../answers.ts";
import { type Recipe } from "../recipe.ts";
import { type Target } from "../target.ts";

const SSL_REQUEST = int32(8, 80_877_103);
const LIMIT_MS = 10_000;

/** Runs the victim's transaction with that id, on the wire and in commit mode. */
async function runsOnce(target: Target, id: string): Promise<string | null> {
  const session = await target.openSession("crane_write", target.other.key, {
    options: "-c highwater.ack=commit",
  });
  try {
    await session.ask(query("BEGIN"));
    await session.ask(query(`SET LOCAL highwater.id = '${id}'`));
    await session.ask(query(`INSERT INTO crane.orders VALUES ('${id}', 'must run')`));
    const ended = await session.ask(query("COMMIT"));
    const rows = await target.count(`SELECT FROM crane.orders WHERE id = '${id}'`);
    if (errorOf(ended) === null && rows === 1 && tokenOf(ended) !== "") return null;
    return `the victim's COMMIT was answered ${errorOf(ended) ?? "without an error"}, and has ${String(rows)} rows`;
  } finally {
    session.destroy();
  }
}

/** Texts that write a receipt under the id, or that make the gateway believe so. */
async function forgeries(session: RawSession, id: string): Promise<string[]> {
  const named = rowsOf(await session.ask(query("SELECT name, statement FROM pg_prepared_statements")));
  const epoch = "(SELECT id::text FROM highwater.current_epoch)";
  const tags = ["00000000-0000-0000-0000-000000000000", crypto.randomUUID()];
  const receipts = named.flatMap(([name, statement]) =>
    statement?.includes("write_receipt") === true ? [name ?? ""] : [],
  );
  return tags.flatMap((tag) => [
    `SELECT highwater.write_receipt('${id}', '${tag}', ${epoch}::uuid, 0)`,
    `INSERT INTO highwater.receipt (id, tag, epoch, digest) SELECT '${id}', '${tag}', ${epoch}::uuid, 0`,
    ...receipts.map((name) => `EXECUTE ${name}('${id}', '${tag}', '${crypto.randomUUID()}', '0')`),
  ]);
}

export const WIRE_SESSIONS: readonly Recipe[] = [
  {
    item: "wire",
    title: "a session in commit mode writes receipts under another tenant's next id",
    run: async (target) => {
      const id = newId();
      const options = { options: "-c highwater.ack=commit" };
      const session = await target.openSession("acme_write", target.writer.key, options);
      try {
        const insert = (what: string): string =>
          `INSERT INTO acme.orders VALUES (gen_random_uuid()::text, '${what}')`;
        // From here on, the session has the gateway's own prepared statement.
        await session.ask(query(insert("first")));
        for (const sql of await forgeries(session, id)) {
          await session.ask(query("BEGIN"));
          await session.ask(query(insert("forged")));
          await session.ask(query(sql));
          await session.ask(query("COMMIT"));
        }
        await session.ask(query("BEGIN"));
        await session.ask(query(`SET LOCAL highwater.id = '${id}'`));
        await session.ask(query(insert("named")));
        await session.ask(query("COMMIT"));
      } finally {
        session.destroy();
      }
      return runsOnce(target, id);
    },
  },
  {
    item: "wire",
    title: "a session sets highwater.* for another tenant's role, or for all",
    run: async (target) => {
      const session = await target.openSession("acme_write", target.writer.key);
      try {
        const [[database = ""] = []] = rowsOf(await session.ask(query("SELECT current_database()")));
        for (const name of ["highwater.ack = 'commit'", "highwater.level = 'none'", "highwater.max_wait = 1"])
          for (const whose of [
            "ROLE crane_write",
            `ROLE crane_write IN DATABASE ${String(database)}`,
            "ROLE ALL",
            `DATABASE ${String(database)}`,
            "SYSTEM",
          ])
            await session.ask(query(`ALTER ${whose} SET ${name}`));
      } finally {
        session.destroy();
      }
      const victim = await target.openSession("crane_write", target.other.key);
      try {
        for (const name of ["ack", "level", "max_wait"]) {
          const asked = await victim.ask(query(`SELECT current_setting('highwater.${name}', true)`));
          const [[value = null] = []] = rowsOf(asked);
          if (value !== null && value !== "") return `its highwater.${name} is ${value}`;
        }
        const frames = await victim.ask(
          query("INSERT INTO crane.orders VALUES (gen_random_uuid()::text, 'safe')"),
        );
        return tokenOf(frames) === "" ? null : "its answers come at the commit point";
      } finally {
        victim.destroy();
      }
    },
  },
  {
    item: "wire",
    title: "the first packet of a session names a role that is not its own",
    run: async (target) => {
      for (const wanted of ["crane_write", "postgres", "highwater_service"])
        for (const parameters of [
          { role: wanted },
          { session_authorization: wanted },
          { options: `-c role=${wanted}` },
          { options: `-c session_authorization=${wanted}` },
          { options: `--role=${wanted}` },
        ]) {
          const session = await target
            .openSession("acme_write", target.writer.key, parameters)
            .catch(() => null);
          if (session === null) continue;
          const [[user = null] = []] = rowsOf(await session.ask(query("SELECT current_user")));
          session.destroy();
          if (user !== "acme_write") return `it is ${String(user)} with ${JSON.stringify(parameters)}`;
        }
      return null;
    },
  },
  {
    item: "wire",
    title: "commands that are put in front of a client's encryption are run as the client's",
    run: async () => {
      const authority = makeAuthority("Attacked");
      const shown = authority.issue("127.0.0.1");
      const known = getCACertificates("default");
      setDefaultCACertificates([...known, authority.certificate]);
      try {
        await using system = await System.start({
          cluster: { nodes: [{ id: "us-east", region: "us-east" }] },
          levels: { disk: { primary: true } },
          env: {
            HIGHWATER_TLS_CERTIFICATE: shown.certificate,
            HIGHWATER_TLS_KEY: shown.key,
            HIGHWATER_TLS_CA: authority.certificate,
          },
        });
        await system.cluster.query("us-east", "CREATE TABLE put_in_front (n int)");
        await system.cluster.query("us-east", "GRANT ALL ON put_in_front TO PUBLIC");
        return await putInFront(system, authority.certificate);
      } finally {
        setDefaultCACertificates(known);
      }
    },
  },
];

/**
 * Tries all ways: in the packet of the request, and after its answer. The client continues
 * normally.
 */
async function putInFront(system: System, ca: string): Promise<string | null> {
  const place = placeOf(system.pgUrl("us-east"));
  const { user, database } = place;
  const insert = query("INSERT INTO put_in_front VALUES (1)");
  const first = startup({ user, database });
  const own = await openSocket(place);
  own.write(SSL_REQUEST);
  await once(own, "data");
  const served = await answersTo(own, { ca, first });
  own.destroy();
  if (served === null) return "an undisturbed client is not served";
  for (const injected of [insert, first, Buffer.concat([first, insert]), message("p", text("guess"))])
    for (const when of ["with the request", "behind the answer"] as const) {
      const socket = await openSocket(place);
      if (when === "with the request") socket.write(Buffer.concat([SSL_REQUEST, injected]));
      else {
        socket.write(SSL_REQUEST);
        await once(socket, "data");
        socket.write(injected);
      }
      const got = await answersTo(socket, { ca, first });
      socket.destroy();
      if (got !== null) return `sent ${when}, it did not end the connection: ${got}`;
    }
  const [row] = await system.cluster.query("us-east", "SELECT count(*)::int AS n FROM put_in_front");
  return row?.["n"] === 0 ? null : `${String(row?.["n"])} commands were run`;
}

async function openSocket({ host, port }: { readonly host: string; readonly port: number }): Promise<Socket> {
  const socket = connect({ host, port, noDelay: true });
  socket.on("error", () => undefined);
  await once(socket, "connect");
  return socket;
}

/** The answer that the client gets inside its encryption; null without encryption. */
async function answersTo(
  socket: Socket,
  { ca, first }: { readonly ca: string; readonly first: Buffer },
): Promise<string | null> {
  const secured = connectTls({ socket, ca, servername: "localhost", checkServerIdentity: () => undefined });
  secured.setTimeout(LIMIT_MS, () => secured.destroy());
  const ended = new Promise<null>((resolve) => {
    secured.once("error", () => {
      resolve(null);
    });
    secured.once("close", () => {
      resolve(null);
    });
  });
  secured.once("secureConnect", () => secured.write(first));
  const answered = once(secured, "data").then(
    ([bytes]) => (bytes as Buffer).toString("latin1"),
    () => null,
  );
  return Promise.race([ended, answered]);
}
