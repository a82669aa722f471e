// Prisma's client on node-postgres: prints a line of JSON for each case; a failure is a result, too.
import { PrismaPg } from "@prisma/adapter-pg";
import pg from "pg";
import { PrismaClient } from "./dist/client.ts";

const connectionString = process.env.DATABASE_URL;
const SCHEMA = `CREATE TABLE account (id serial PRIMARY KEY, owner text UNIQUE NOT NULL, balance int NOT NULL CHECK (balance >= 0));
  CREATE TABLE entry (id serial PRIMARY KEY, account_id int NOT NULL REFERENCES account, amount int NOT NULL)`;

async function see(name, call) {
  let result;
  try {
    result = await call();
  } catch (error) {
    result = {
      error: error.name,
      code: error.code,
      meta: error.meta?.driverAdapterError?.cause ?? error.meta,
    };
  }
  console.log(JSON.stringify({ case: name, result: result ?? null }));
}

const admin = new pg.Client({ connectionString });
await admin.connect();
await admin.query(SCHEMA);
await admin.end();

const prisma = new PrismaClient({
  adapter: new PrismaPg({ connectionString, max: 4 }, { schema: "client" }),
});
const entries = { include: { entries: { orderBy: { id: "asc" } } } };
await see("create with children", () =>
  prisma.account.create({
    data: { owner: "ada", balance: 100, entries: { create: [{ amount: 60 }, { amount: 40 }] } },
    ...entries,
  }),
);
await see("create many", () =>
  prisma.account.createMany({ data: Array.from({ length: 20 }, (_, n) => ({ owner: `n${n}`, balance: n })) }),
);
await see("a duplicate", () => prisma.account.create({ data: { owner: "ada", balance: 1 } }));
await see("create many, skipping duplicates", () =>
  prisma.account.createMany({
    data: [
      { owner: "ada", balance: 1 },
      { owner: "bob", balance: 1 },
    ],
    skipDuplicates: true,
  }),
);
await see("find", () => prisma.account.findUnique({ where: { owner: "ada" }, ...entries }));
await see("upsert", () =>
  prisma.account.upsert({
    where: { owner: "ada" },
    create: { owner: "ada", balance: 0 },
    update: { balance: { increment: 5 } },
  }),
);
await see("update of nothing", () => prisma.account.update({ where: { id: 999 }, data: { balance: 1 } }));
await see("update many of nothing", () =>
  prisma.account.updateMany({ where: { id: 999 }, data: { balance: 1 } }),
);
await see("a failed check", () => prisma.account.update({ where: { owner: "ada" }, data: { balance: -1 } }));
await see("a batch", () =>
  prisma.$transaction([
    prisma.account.update({ where: { owner: "ada" }, data: { balance: { decrement: 10 } } }),
    prisma.account.update({ where: { owner: "bob" }, data: { balance: { increment: 10 } } }),
  ]),
);
await see("a batch that fails", () =>
  prisma.$transaction([
    prisma.account.create({ data: { owner: "eve", balance: 1 } }),
    prisma.account.create({ data: { owner: "ada", balance: 1 } }),
  ]),
);
await see("interactive", () =>
  prisma.$transaction(
    async (tx) => {
      const { balance } = await tx.account.findUniqueOrThrow({ where: { owner: "ada" } });
      return tx.account.update({ where: { owner: "ada" }, data: { balance: balance + 1 } });
    },
    { isolationLevel: "Serializable" },
  ),
);
await see("interactive that throws", () =>
  prisma.$transaction(async (tx) => {
    await tx.account.deleteMany({ where: { balance: 0 } });
    throw new TypeError("no");
  }),
);
await see(
  "side by side",
  async () =>
    (
      await Promise.all(
        Array.from({ length: 16 }, () =>
          prisma.account.update({ where: { owner: "bob" }, data: { balance: { increment: 1 } } }),
        ),
      )
    ).length,
);
await see("raw", () => prisma.$queryRaw`SELECT owner, balance FROM account WHERE balance > ${5} ORDER BY id`);
await see("raw write", () => prisma.$executeRaw`UPDATE account SET balance = balance WHERE balance > ${15}`);
await see("aggregate and group", async () => [
  await prisma.account.aggregate({ _sum: { balance: true }, _count: true }),
  await prisma.entry.groupBy({ by: ["accountId"], _sum: { amount: true } }),
]);
await see("delete", () => prisma.entry.deleteMany());
await prisma.$disconnect();
