// Attempts to end another tenant's transaction, and to use its header.
import { described, newId } from "../caller.ts";
import { type Recipe } from "../recipe.ts";

const ATTACK_MS = 3_000;
const INSERT = (id: string): string => `INSERT INTO crane.orders VALUES ('${id}', 'one order')`;

export const SETTLING: readonly Recipe[] = [
  {
    item: "9",
    title: "a read key of another tenant begins on an open id elsewhere and rolls it back at a third gateway",
    run: async ({ reader, other }) => {
      const open = await other.begin({ statements: [{ sql: INSERT(newId()) }] });
      if (open.begun.status !== 200) return `the victim cannot begin: ${described(open.begun)}`;
      const theirs = await reader.begin({ id: open.id, readOnly: true }, 1);
      await reader.call({ id: open.id, header: theirs.header }, "rollback", { seq: 1, at: 2 });
      await reader.stateOf(open.id, 2);
      const committed = await other.call(open, "commit", { seq: 1 });
      return committed.status === 200 ? null : `the victim's commit: ${described(committed)}`;
    },
  },
  {
    item: "9",
    title: "a write key of another tenant uses an open id elsewhere",
    run: async ({ writer, other }) => {
      const open = await other.begin({ statements: [{ sql: INSERT(newId()) }] });
      // They may wait for the id, longer than an open transaction may be idle.
      const attempts = [writer.run(["SELECT 1"], { id: open.id }, 1), writer.begin({ id: open.id }, 2)];
      await new Promise((resolve) => setTimeout(resolve, ATTACK_MS));
      const committed = await other.call(open, "commit", { seq: 1 });
      await Promise.all(attempts);
      return committed.status === 200 ? null : `the victim's commit: ${described(committed)}`;
    },
  },
  {
    item: "9",
    title: "a read key of the same tenant writes with the header of a write key's transaction",
    run: async (target) => {
      const { reader, writer } = target;
      const id = newId();
      const open = await writer.begin();
      const sql = `INSERT INTO acme.orders VALUES ('${id}', 'with a borrowed header')`;
      await reader.call(open, "statements", { seq: 1, statements: [sql] });
      await reader.call(open, "commit", { seq: 2 });
      await writer.call(open, "rollback", { seq: 1 });
      const rows = await target.count(`SELECT FROM acme.orders WHERE id = '${id}'`);
      return rows === 0 ? null : "a read key has written a row";
    },
  },
  {
    item: "9",
    title: "a second sender of an id does not end the original",
    run: async ({ writer }) => {
      const open = await writer.begin({ statements: [{ sql: "SELECT pg_sleep(0.1)" }] });
      const sending = writer.run(["SELECT 2"], { id: open.id }, 1);
      await new Promise((resolve) => setTimeout(resolve, ATTACK_MS));
      const committed = await writer.call(open, "commit", { seq: 1 });
      const second = await sending;
      if (second.status === 200 && second.body["replayed"] !== true)
        return `the second sender was answered ${described(second)}`;
      return committed.status === 200 ? null : `the original's commit: ${described(committed)}`;
    },
  },
];
