// Attacks by a tenant on the PostgreSQL ports for reads, of replicas and of the primary.
import { query } from "../../wire/frames.ts";
import { placeOf, RawSession } from "../../wire/session.ts";
import { errorOf, tokenOf } from "../answers.ts";
import { type Recipe } from "../recipe.ts";
import { type Target } from "../target.ts";

const MARK = "by a read port";
const INSERT = `INSERT INTO acme.orders VALUES (gen_random_uuid()::text, '${MARK}')`;
/** Each is a try to write; the texts of one try are separate messages. */
const TRIES: readonly (readonly string[])[] = [
  [INSERT],
  ["SET default_transaction_read_only = off", INSERT],
  ["SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", INSERT],
  ["SET transaction_read_only = off", INSERT],
  [`SET default_transaction_read_only = off; ${INSERT}`],
  ["BEGIN READ WRITE", INSERT, "COMMIT"],
  ["BEGIN", "SET TRANSACTION READ WRITE", INSERT, "COMMIT"],
  ["BEGIN", "SET LOCAL transaction_read_only = off", INSERT, "COMMIT"],
  [`BEGIN READ WRITE; ${INSERT}; COMMIT`],
  ["SELECT set_config('transaction_read_only', 'off', false)", INSERT],
  [`WITH setting AS (SELECT set_config('transaction_read_only', 'off', false)) ${INSERT}`],
  ["RESET ALL", INSERT],
  ["DISCARD ALL", INSERT],
  [`DO $$ BEGIN SET LOCAL transaction_read_only = off; ${INSERT}; END $$`],
  [`DO $$ BEGIN COMMIT; SET TRANSACTION READ WRITE; ${INSERT}; END $$`],
  [`PREPARE writing AS ${INSERT}`, "SET default_transaction_read_only = off", "EXECUTE writing"],
  ["BEGIN READ WRITE", INSERT, "PREPARE TRANSACTION 'by a read port'", "COMMIT PREPARED 'by a read port'"],
  ["SET ROLE NONE", "SET SESSION AUTHORIZATION DEFAULT", "BEGIN READ WRITE", INSERT, "COMMIT"],
];

type By = "reader" | "writer";

function openAt(target: Target, region: string, by: By): Promise<RawSession> {
  const place = placeOf(target.system.pgReadUrl(region, by === "reader" ? "acme_read" : "acme_write"));
  return RawSession.open({ ...place, password: target[by].key });
}

/**
 * Where a key must not write. A write key may write at the primary: there the port is read-only as
 * long as its client does not turn that off, and holds the answer as the other port does.
 */
function forbidden({ system }: Target): readonly { readonly region: string; readonly by: By }[] {
  const replicas = system.regions.slice(1);
  return [
    ...system.regions.map((region) => ({ region, by: "reader" as const })),
    ...replicas.map((region) => ({ region, by: "writer" as const })),
  ];
}

/** The token of a fast transaction of the other tenant. */
async function othersToken(target: Target): Promise<string> {
  const session = await target.openSession("crane_write", target.other.key, {
    options: "-c highwater.ack=commit",
  });
  try {
    const insert = "INSERT INTO crane.orders VALUES (gen_random_uuid()::text, 'hidden')";
    return tokenOf(await session.ask(query(insert)));
  } finally {
    session.destroy();
  }
}

export const WIRE_READS: readonly Recipe[] = [
  {
    item: "wire",
    title: "a session on the port for reads writes at a replica, or with a read key",
    run: async (target) => {
      for (const { region, by } of forbidden(target))
        for (const texts of TRIES) {
          const session = await openAt(target, region, by);
          try {
            // A session that is ended has not written either.
            for (const text of texts) if ((await session.ask(query(text)).catch(() => null)) === null) break;
          } finally {
            session.destroy();
          }
          const written = await target.count(`SELECT FROM acme.orders WHERE item = '${MARK}'`);
          if (written > 0) return `${String(written)} rows in ${region} by the ${by}: ${texts.join(" | ")}`;
        }
      return null;
    },
  },
  {
    item: "wire",
    title: "a read waits for the commit of another tenant's token, or of a forged one",
    run: async (target) => {
      const token = await othersToken(target);
      if (token === "") return "the other tenant gets no token";
      const [region = ""] = target.system.regions.slice(1);
      const middle = Math.floor(token.length / 2);
      const forged = [...token]
        .map((char, at) => (at === middle ? (char === "A" ? "B" : "A") : char))
        .join("");
      for (const after of [token, forged, `${token}A`, token.slice(0, -4), "hw2_"]) {
        const session = await openAt(target, region, "writer");
        try {
          const set = errorOf(await session.ask(query(`SET highwater.after = '${after}'`)), "C");
          const error = set ?? errorOf(await session.ask(query("SELECT count(*) FROM acme.orders")), "C");
          if (error !== "42501" && error !== "22023")
            return `with ${after === token ? "its token" : after}: ${error ?? "rows"}`;
        } finally {
          session.destroy();
        }
      }
      return null;
    },
  },
];
