// Attacks with tickets of transactions on applications' own connections: no tenant may end
// another's, and a ticket that no gateway signed must not make a service write or keep anything.
import { type CallResponse, newId } from "../caller.ts";
import { type Recipe } from "../recipe.ts";

interface Answer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** The result for each of a request's tickets, or the refusal of the whole request. */
function answersOf({ status, body }: CallResponse): readonly Answer[] {
  return (body["answers"] as Answer[] | undefined) ?? [{ status, body }];
}

/** Copies of the ticket, each with one bit changed in one of these bytes. */
function changedAt(ticket: string, bytes: readonly number[]): string[] {
  return bytes.map((at) => {
    const body = Buffer.from(ticket.slice(ticket.indexOf("_") + 1), "base64url");
    body[at % body.length] = (body[at % body.length] ?? 0) ^ 1;
    return `hwt1_${body.toString("base64url")}`;
  });
}

export const TICKETS: readonly Recipe[] = [
  {
    item: "2",
    title: "a tenant ends another tenant's ticket, and changed and made-up ones",
    run: async (target) => {
      const { writer, reader, other } = target;
      const id = newId();
      const [issued] = answersOf(await other.send("gateway", "/v1/tickets", { transactions: [{ id }] }));
      const ticket = issued?.body["ticket"];
      if (typeof ticket !== "string") throw new Error(`no ticket: ${JSON.stringify(issued)}`);
      const forged = [ticket, ...changedAt(ticket, [0, 1, 17, 40, 50, 60, -1]), "hwt1_", `${ticket}A`];
      for (const ended of ["commit", "rollback"])
        for (const caller of [writer, reader]) {
          const tickets = forged.map((each) => ({ ticket: each, ended }));
          const answers = answersOf(await caller.send("gateway", "/v1/tickets/ends", { tickets }));
          const taken = answers.find(({ status }) => status < 400 || status >= 500);
          if (taken !== undefined) return `a ticket was taken: ${JSON.stringify(taken)}`;
        }
      const [row] = await target.look(`SELECT kind FROM highwater.receipt WHERE id = '${id}'`);
      if (row !== undefined) return `the victim's id was settled: ${JSON.stringify(row)}`;
      await other.send("gateway", "/v1/tickets/ends", { tickets: [{ ticket, ended: "rollback" }] });
      return null;
    },
  },
  {
    item: "2",
    title: "a read key asks for a ticket",
    run: async ({ reader }) => {
      const asked = { transactions: [{ id: newId() }] };
      const [answer] = answersOf(await reader.send("gateway", "/v1/tickets", asked));
      return answer?.status === 403 ? null : `it was answered: ${JSON.stringify(answer)}`;
    },
  },
  {
    item: "2",
    title: "a client writes the receipt of its ticket for another epoch, or claims a COMMIT without it",
    run: async (target) => {
      const { writer } = target;
      const asked = { transactions: [{ id: newId() }] };
      const [issued] = answersOf(await writer.send("gateway", "/v1/tickets", asked));
      const { id, tag, ticket } = issued?.body ?? {};
      const client = await target.psql("writer");
      const text = "INSERT INTO highwater.receipt (id, tag, epoch, digest) VALUES ($1, $2, $3, 1)";
      const isWritten = await client.query(text, [id, tag, newId()]).then(
        () => true,
        () => false,
      );
      await client.end();
      if (isWritten) return "a receipt of another epoch was written";
      const tickets = [{ ticket, ended: "commit" }];
      const [ended] = answersOf(await writer.send("gateway", "/v1/tickets/ends", { tickets }));
      return ended?.body["code"] === "transaction_aborted" ? null : `a token: ${JSON.stringify(ended)}`;
    },
  },
];
