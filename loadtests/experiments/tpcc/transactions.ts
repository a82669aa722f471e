// TPC-C's five transactions (clauses 2.4 to 2.8). Statements that do not need each other's answers
// go in one call, on both sides.
import { type Random, whole } from "../load/random.ts";
import type { Statement } from "../load/workload.ts";
import type { Ending, Rows, Tx } from "./database.ts";
import { DISTRICTS, pickCustomer, pickItem, pickName, type Scale } from "./random.ts";
import { districtInfo } from "./schema.ts";

export const KINDS = ["new_order", "payment", "order_status", "delivery", "stock_level"] as const;
export type Kind = (typeof KINDS)[number];
export const READ_ONLY: ReadonlySet<Kind> = new Set(["order_status", "stock_level"]);

/**
 * Where a terminal stands (clause 2.4.1.1): its warehouse, and the district of its stock levels.
 */
export interface Terminal {
  readonly warehouse: number;
  readonly district: number;
}

/** What a transaction was asked to do: the same for every attempt at it. */
export type Body = (tx: Tx) => Promise<Ending>;

export function drawTransaction(kind: Kind, random: Random, scale: Scale, terminal: Terminal): Body {
  switch (kind) {
    case "new_order":
      return newOrder(drawOrder(random, scale, terminal));
    case "payment":
      return payment(drawPayment(random, scale, terminal));
    case "order_status":
      return orderStatus(drawCustomer(random, scale, terminal.warehouse, whole(random, 1, DISTRICTS)));
    case "delivery":
      return delivery(terminal.warehouse, whole(random, 1, 10));
    case "stock_level":
      return stockLevel(terminal, whole(random, 10, 20));
  }
}

const statement = (sql: string, ...params: readonly (string | number)[]): Statement => ({ sql, params });
/** PostgreSQL's text of an array of numbers. */
const array = (values: readonly (number | string)[]): string => `{${values.join(",")}}`;
const one = (rows: Rows | undefined): readonly (string | null)[] => {
  const [row] = rows ?? [];
  if (row === undefined) throw new Error("a row that TPC-C is sure of is missing");
  return row;
};

interface Line {
  readonly item: number;
  readonly supply: number;
  readonly quantity: number;
}

interface Order {
  readonly warehouse: number;
  readonly district: number;
  readonly customer: number;
  readonly lines: readonly Line[];
}

function drawOrder(random: Random, scale: Scale, { warehouse }: Terminal): Order {
  const count = whole(random, 5, 15);
  // One of a hundred orders names an item that there is not, and is rolled back.
  const isWrong = whole(random, 1, 100) === 1;
  const lines = Array.from({ length: count }, (_, at): Line => ({
    item: isWrong && at === count - 1 ? scale.items + 1 : pickItem(random, scale),
    supply: whole(random, 1, 100) === 1 ? otherWarehouse(random, scale, warehouse) : warehouse,
    quantity: whole(random, 1, 10),
  }));
  return { warehouse, district: whole(random, 1, DISTRICTS), customer: pickCustomer(random, scale), lines };
}

function otherWarehouse(random: Random, { warehouses }: Scale, own: number): number {
  if (warehouses === 1) return own;
  const other = whole(random, 1, warehouses - 1);
  return other < own ? other : other + 1;
}

function newOrder({ warehouse, district, customer, lines }: Order): Body {
  return async (tx) => {
    const wanted = [array(lines.map(({ supply }) => supply)), array(lines.map(({ item }) => item))] as const;
    const [, counter, , items = [], stocks = []] = await tx.execute(
      statement("SELECT w_tax FROM warehouse WHERE w_id = $1", warehouse),
      statement(
        `UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2
         RETURNING d_tax, d_next_o_id - 1`,
        ...[warehouse, district],
      ),
      statement(
        "SELECT c_discount, c_last, c_credit FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
        ...[warehouse, district, customer],
      ),
      statement("SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id = ANY ($1::int[])", wanted[1]),
      // In one order for everybody, so that two of them never wait for each other.
      statement(
        `SELECT s_w_id, s_i_id, s_quantity, ${districtInfo(district)}, s_data FROM stock
         WHERE (s_w_id, s_i_id) IN (SELECT * FROM unnest($1::int[], $2::int[]))
         ORDER BY s_w_id, s_i_id FOR UPDATE`,
        ...wanted,
      ),
    );
    const prices = new Map(items.map(([id, price]) => [Number(id), Number(price)]));
    if (lines.some(({ item }) => !prices.has(item))) return "roll_back";
    const order = Number(one(counter)[1]);
    return orderEnding({ warehouse, district, customer, lines }, order, prices, stocks);
  };
}

interface Stock {
  quantity: number;
  ordered: number;
  orders: number;
  remote: number;
  readonly info: string;
}

function orderEnding(
  { warehouse, district, customer, lines }: Order,
  order: number,
  prices: ReadonlyMap<number, number>,
  stockRows: Rows,
): Ending {
  const stocks = new Map<string, Stock>(
    stockRows.map(([supply, item, quantity, info]) => [
      `${String(supply)},${String(item)}`,
      { quantity: Number(quantity), ordered: 0, orders: 0, remote: 0, info: info ?? "" },
    ]),
  );
  const stockOf = ({ supply, item }: Line): Stock => {
    const found = stocks.get(`${String(supply)},${String(item)}`);
    if (found === undefined) throw new Error("a stock that TPC-C is sure of is missing");
    return found;
  };
  for (const line of lines) {
    const stock = stockOf(line);
    stock.quantity -= line.quantity;
    if (stock.quantity < 10) stock.quantity += 91;
    stock.ordered += line.quantity;
    stock.orders += 1;
    if (line.supply !== warehouse) stock.remote += 1;
  }
  const allLocal = lines.every(({ supply }) => supply === warehouse) ? 1 : 0;
  const changed = [...stocks];
  const part = (at: 0 | 1): string => array(changed.map(([key]) => key.split(",")[at] ?? ""));
  const changes = (value: (stock: Stock) => number): string =>
    array(changed.map(([, stock]) => value(stock)));
  return [
    statement(
      `INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
       VALUES ($1, $2, $3, $4, now(), $5, $6)`,
      ...[order, district, warehouse, customer, lines.length, allLocal],
    ),
    statement(
      "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)",
      order,
      district,
      warehouse,
    ),
    statement(
      `UPDATE stock SET s_quantity = n.quantity, s_ytd = s_ytd + n.ordered, s_order_cnt = s_order_cnt + n.orders,
         s_remote_cnt = s_remote_cnt + n.remote
       FROM unnest($1::int[], $2::int[], $3::int[], $4::int[], $5::int[], $6::int[])
         AS n (w_id, i_id, quantity, ordered, orders, remote)
       WHERE s_w_id = n.w_id AND s_i_id = n.i_id`,
      ...[part(0), part(1), changes(({ quantity }) => quantity), changes(({ ordered }) => ordered)],
      ...[changes(({ orders }) => orders), changes(({ remote }) => remote)],
    ),
    statement(
      `INSERT INTO order_line
         (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info)
       SELECT $1::int, $2::int, $3::int, number, item, supply, quantity, amount, info
       FROM unnest($4::int[], $5::int[], $6::int[], $7::numeric[], $8::text[])
         WITH ORDINALITY AS n (item, supply, quantity, amount, info, number)`,
      ...[order, district, warehouse],
      ...[array(lines.map(({ item }) => item)), array(lines.map(({ supply }) => supply))],
      array(lines.map(({ quantity }) => quantity)),
      array(lines.map(({ item, quantity }) => (quantity * (prices.get(item) ?? 0)).toFixed(2))),
      array(lines.map((line) => stockOf(line).info)),
    ),
  ];
}

/** Three of five customers are known by their last name (clause 2.5.1.2). */
interface Customer {
  readonly warehouse: number;
  readonly district: number;
  readonly id?: number;
  readonly name?: string;
}

function drawCustomer(random: Random, scale: Scale, warehouse: number, district: number): Customer {
  return whole(random, 1, 100) <= 60
    ? { warehouse, district, name: pickName(random, scale, "run") }
    : { warehouse, district, id: pickCustomer(random, scale) };
}

/**
 * The customer's number, by SQL, with the warehouse, the district and what is known of the customer
 * as the first three parameters.
 */
function customerId({ id }: Customer): string {
  if (id !== undefined) return "$3::int";
  // Of all that have the name, by their first names, the one in the middle, rounded up.
  const named = "FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3";
  return `(SELECT c_id ${named} ORDER BY c_first OFFSET (SELECT (count(*) + 1) / 2 - 1 ${named}) LIMIT 1)`;
}

const known = ({ warehouse, district, id, name }: Customer): (string | number)[] => [
  ...[warehouse, district, id ?? name ?? ""],
];

interface Payment {
  readonly warehouse: number;
  readonly district: number;
  readonly customer: Customer;
  readonly amount: string;
}

function drawPayment(random: Random, scale: Scale, { warehouse }: Terminal): Payment {
  const district = whole(random, 1, DISTRICTS);
  // Of every hundred, 15 are customers of another warehouse, if there is one.
  const isHome = scale.warehouses === 1 || whole(random, 1, 100) <= 85;
  const [payer, place] = isHome
    ? [warehouse, district]
    : [otherWarehouse(random, scale, warehouse), whole(random, 1, DISTRICTS)];
  return {
    warehouse,
    district,
    customer: drawCustomer(random, scale, payer, place),
    amount: (whole(random, 100, 500_000) / 100).toFixed(2),
  };
}

/**
 * Nothing of it depends on an answer, so all of it goes with the commit: no lock is held while a
 * client thinks.
 */
function payment({ warehouse, district, customer, amount }: Payment): Body {
  const place = (prefix: string): string =>
    ["name", "street_1", "street_2", "city", "state", "zip"].map((name) => `${prefix}_${name}`).join(", ");
  const payer = `c_w_id = $1 AND c_d_id = $2 AND c_id = ${customerId(customer)}`;
  const ending = [
    statement(
      `UPDATE warehouse SET w_ytd = w_ytd + $2::numeric WHERE w_id = $1 RETURNING ${place("w")}`,
      ...[warehouse, amount],
    ),
    statement(
      `UPDATE district SET d_ytd = d_ytd + $3::numeric WHERE d_w_id = $1 AND d_id = $2 RETURNING ${place("d")}`,
      ...[warehouse, district, amount],
    ),
    statement(
      // Only of customers with bad credit is anything written down.
      `UPDATE customer SET c_balance = c_balance - $4::numeric, c_ytd_payment = c_ytd_payment + $4::numeric,
         c_payment_cnt = c_payment_cnt + 1,
         c_data = CASE WHEN c_credit <> 'BC' THEN c_data
           ELSE left(concat_ws(' ', c_id, c_d_id, c_w_id, $5::int, $6::int, $4::numeric, c_data), 500) END
       WHERE ${payer}
       RETURNING c_id, c_first, c_middle, c_last, c_phone, c_since, c_credit, c_credit_lim, c_discount, c_balance`,
      ...[...known(customer), amount, district, warehouse],
    ),
    statement(
      `INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
       SELECT c_id, c_d_id, c_w_id, d_id, w_id, now(), $4::numeric, w_name || '    ' || d_name
       FROM customer, warehouse, district WHERE ${payer} AND w_id = $6::int AND d_w_id = $6::int AND d_id = $5::int`,
      ...[...known(customer), amount, district, warehouse],
    ),
  ];
  return () => Promise.resolve(ending);
}

/**
 * By the number that the customer is looked up by, and by nothing that an answer says: one call.
 */
function orderStatus(customer: Customer): Body {
  const owner = `o_w_id = $1 AND o_d_id = $2 AND o_c_id = ${customerId(customer)}`;
  const last = `SELECT max(o_id) FROM orders WHERE ${owner}`;
  const ending = [
    statement(
      `SELECT c_id, c_balance, c_first, c_middle, c_last FROM customer
       WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = ${customerId(customer)}`,
      ...known(customer),
    ),
    statement(
      `SELECT o_id, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_id = (${last})`,
      ...known(customer),
    ),
    statement(
      `SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
       WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = (${last})`,
      ...known(customer),
    ),
  ];
  return () => Promise.resolve(ending);
}

/** The oldest order that waits in each district; districts without one are passed over. */
function delivery(warehouse: number, carrier: number): Body {
  return async (tx) => {
    const [taken = []] = await tx.execute(
      statement(
        `DELETE FROM new_order WHERE no_w_id = $1 AND (no_d_id, no_o_id) IN (
           SELECT d.id, (SELECT min(no_o_id) FROM new_order WHERE no_w_id = $1 AND no_d_id = d.id)
           FROM generate_series(1, ${String(DISTRICTS)}) AS d (id))
         RETURNING no_d_id, no_o_id`,
        warehouse,
      ),
    );
    const orders = [
      array(taken.map(([district]) => district ?? "")),
      array(taken.map(([, order]) => order ?? "")),
    ];
    const delivered = "unnest($2::int[], $3::int[]) AS n (place, number)";
    return [
      statement(
        `UPDATE orders SET o_carrier_id = $4 FROM ${delivered} WHERE o_w_id = $1 AND o_d_id = n.place AND o_id = n.number`,
        ...[warehouse, ...orders, carrier],
      ),
      statement(
        `UPDATE order_line SET ol_delivery_d = now() FROM ${delivered}
         WHERE ol_w_id = $1 AND ol_d_id = n.place AND ol_o_id = n.number`,
        ...[warehouse, ...orders],
      ),
      statement(
        `UPDATE customer SET c_balance = c_balance + s.amount, c_delivery_cnt = c_delivery_cnt + 1
         FROM (SELECT o_d_id, o_c_id, sum(ol_amount) AS amount FROM ${delivered}
             JOIN orders ON o_w_id = $1 AND o_d_id = n.place AND o_id = n.number
             JOIN order_line ON ol_w_id = $1 AND ol_d_id = n.place AND ol_o_id = n.number
             GROUP BY o_d_id, o_c_id) s
         WHERE c_w_id = $1 AND c_d_id = s.o_d_id AND c_id = s.o_c_id`,
        ...[warehouse, ...orders],
      ),
    ];
  };
}

function stockLevel({ warehouse, district }: Terminal, threshold: number): Body {
  return async (tx) => {
    const [found] = await tx.execute(
      statement("SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2", warehouse, district),
    );
    const next = Number(one(found)[0]);
    return [
      statement(
        `SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = $1 AND s_i_id = ol_i_id
         WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id >= $3 AND ol_o_id < $4 AND s_quantity < $5`,
        ...[warehouse, district, next - 20, next, threshold],
      ),
    ];
  };
}
