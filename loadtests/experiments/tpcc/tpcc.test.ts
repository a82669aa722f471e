// TPC-C's data rules, on a small database that is never loaded: the same from one seed, and in agreement with itself.
import assert from "node:assert/strict";
import { test } from "node:test";
import { seeded } from "../load/random.ts";
import type { Statement } from "../load/workload.ts";
import { DISTRICTS, lastName, pickCustomer, pickItem, pickName } from "./random.ts";
import { initialRows, type LoadedRow, type Value } from "./rows.ts";
import { COLUMNS, createTables, type Table, TABLES } from "./schema.ts";
import { DECK } from "./terminal.ts";
import { drawTransaction } from "./transactions.ts";

const SCALE = { warehouses: 2, items: 200, customersPerDistrict: 30 };
const rows: readonly LoadedRow[] = [...initialRows(seeded(1), SCALE)];
const of = (table: Table): (readonly Value[])[] =>
  rows.filter(([name]) => name === table).map(([, row]) => row);
const column = (table: Table, name: string): Value[] => {
  const at = COLUMNS[table].findIndex(([each]) => each === name);
  return of(table).map((row) => row[at] ?? null);
};
const sum = (values: readonly Value[]): number =>
  values.reduce<number>((total, each) => total + Number(each), 0);

test("the load is the same from one seed, and every table has the rows that its scale says", () => {
  assert.deepEqual([...initialRows(seeded(1), SCALE)], rows);
  assert.notDeepEqual([...initialRows(seeded(2), SCALE)].slice(0, 5), rows.slice(0, 5));
  const customers = SCALE.warehouses * DISTRICTS * SCALE.customersPerDistrict;
  const counts = Object.fromEntries(TABLES.map((table) => [table, of(table).length]));
  assert.deepEqual(
    { ...counts, order_line: 0 },
    {
      ...{ warehouse: 2, district: 20, customer: customers, history: customers, orders: customers },
      ...{ new_order: 0.3 * customers, item: 200, stock: 400, order_line: 0 },
    },
  );
  for (const [table, row] of rows) assert.equal(row.length, COLUMNS[table].length, table);
  assert.equal(createTables().length, 9);
});

test("the load agrees with itself: payments, lines of orders, deliveries", () => {
  assert.equal(sum(column("warehouse", "w_ytd")), sum(column("district", "d_ytd")));
  assert.equal(sum(column("warehouse", "w_ytd")), sum(column("history", "h_amount")));
  assert.equal(sum(column("orders", "o_ol_cnt")), of("order_line").length);
  assert.equal(
    column("orders", "o_carrier_id").filter((each) => each === null).length,
    of("new_order").length,
  );
  const undelivered = column("order_line", "ol_delivery_d").map((each) => each === null);
  column("order_line", "ol_amount").forEach((amount, at) => {
    assert.equal(Number(amount) > 0, undelivered[at]);
  });
  assert.deepEqual(new Set(column("district", "d_next_o_id")), new Set([31]));
});

test("names and numbers are those of the specification", () => {
  assert.equal(lastName(371), "PRICALLYOUGHT");
  assert.equal(lastName(0), "BARBARBAR");
  const random = seeded(4);
  const full = { warehouses: 1, items: 100_000, customersPerDistrict: 3_000 };
  const customers = Array.from({ length: 50_000 }, () => pickCustomer(random, full));
  assert.ok(Math.min(...customers) >= 1 && Math.max(...customers) <= 3_000);
  assert.ok(
    Array.from({ length: 50_000 }, () => pickItem(random, full)).every(
      (item) => item >= 1 && item <= 100_000,
    ),
  );
  // With few customers every name that is asked for belongs to one.
  const known = new Set(column("customer", "c_last"));
  for (let draw = 0; draw < 1_000; draw++) assert.ok(known.has(pickName(random, SCALE, "run")));
});

test("the deck is the mix of the specification", () => {
  const share = (kind: string): number => DECK.filter((each) => each === kind).length / DECK.length;
  assert.ok(share("payment") >= 0.43);
  for (const kind of ["order_status", "delivery", "stock_level"]) assert.ok(share(kind) >= 0.04, kind);
});

test("a new order sends back the stock that it takes, also where it takes from one twice, and one of a hundred is rolled back", async () => {
  const random = seeded(11);
  const terminal = { warehouse: 1, district: 1 };
  let wrong = 0;
  for (let draw = 0; draw < 2_000; draw++) {
    const body = drawTransaction("new_order", random, SCALE, terminal);
    let asked: readonly Statement[] = [];
    const ending = await body({
      execute: (...statements) => {
        asked = statements;
        const [supplies, items] = (statements[4]?.params ?? []).map((each) =>
          String(each).slice(1, -1).split(","),
        );
        const pairs = [...new Set(items?.map((item, at) => `${supplies?.[at] ?? ""},${item}`))].map((each) =>
          each.split(","),
        );
        const known = (items ?? []).filter((item) => Number(item) <= SCALE.items);
        const stocks = pairs.map(([supply = "", item = ""]) => [supply, item, "10", "info", "data"]);
        return Promise.resolve([
          [["0.1"]],
          [["0.1", "77"]],
          [["0.1", "NAME", "GC"]],
          known.map((item) => [item, "2.50", "name", "data"]),
          stocks,
        ]);
      },
    });
    if (ending === "roll_back") {
      wrong++;
      continue;
    }
    const numbers = (params: readonly (string | number)[], at: number): number[] =>
      String(params[at]).slice(1, -1).split(",").map(Number);
    const [, , stock, lines] = ending;
    // Taken from the stocks, and ordered in the lines: the same.
    const [ordered, orders] = [numbers(stock?.params ?? [], 3), numbers(stock?.params ?? [], 4)];
    const [quantities, amounts] = [numbers(lines?.params ?? [], 5), numbers(lines?.params ?? [], 6)];
    assert.equal(sum(ordered), sum(quantities));
    assert.equal(sum(orders), quantities.length);
    assert.equal(sum(amounts), 2.5 * sum(quantities));
    assert.ok(numbers(stock?.params ?? [], 2).every((left) => left >= 10 && left <= 101));
    assert.equal(asked.length, 5);
  }
  assert.ok(wrong > 5 && wrong < 50, `rolled back: ${String(wrong)}`);
});
