// The rows of the initial database (clause 4.3.3), drawn from one seed: two loads are equal to the
// last letter.
import { type Random, whole } from "../load/random.ts";
import {
  digits,
  DISTRICTS,
  lastName,
  letters,
  namesOf,
  originalData,
  pickName,
  type Scale,
  shuffled,
  UNDELIVERED_SHARE,
} from "./random.ts";
import type { Table } from "./schema.ts";

export type Value = string | number | null;
/** A row with its table, columns in the order of `COLUMNS`. */
export type LoadedRow = readonly [Table, readonly Value[]];

/** All dates of the initial database: what is drawn from a seed may not depend on the day. */
const LOADED_AT = "2026-01-01T00:00:00Z";
const PAID = 10;

export function* initialRows(random: Random, scale: Scale): Generator<LoadedRow> {
  for (let item = 1; item <= scale.items; item++)
    yield [
      "item",
      [
        item,
        whole(random, 1, 10_000),
        letters(random, 14, 24),
        money(random, 100, 10_000),
        originalData(random),
      ],
    ];
  for (let warehouse = 1; warehouse <= scale.warehouses; warehouse++) {
    // Every customer has paid once.
    const perDistrict = scale.customersPerDistrict * PAID;
    yield [
      "warehouse",
      [warehouse, ...addressOf(random), rate(random), (DISTRICTS * perDistrict).toFixed(2)],
    ];
    yield* stockRows(random, scale, warehouse);
    for (let district = 1; district <= DISTRICTS; district++) {
      const next = scale.customersPerDistrict + 1;
      const head = [district, warehouse, ...addressOf(random), rate(random), perDistrict.toFixed(2), next];
      yield ["district", head];
      yield* customerRows(random, scale, { warehouse, district });
      yield* orderRows(random, scale, { warehouse, district });
    }
  }
}

interface District {
  readonly warehouse: number;
  readonly district: number;
}

function* stockRows(random: Random, { items }: Scale, warehouse: number): Generator<LoadedRow> {
  for (let item = 1; item <= items; item++) {
    const info = Array.from({ length: DISTRICTS }, () => letters(random, 24, 24));
    yield ["stock", [item, warehouse, whole(random, 10, 100), ...info, "0", 0, 0, originalData(random)]];
  }
}

function* customerRows(
  random: Random,
  scale: Scale,
  { warehouse, district }: District,
): Generator<LoadedRow> {
  const names = namesOf(scale);
  for (let customer = 1; customer <= scale.customersPerDistrict; customer++) {
    // Every name belongs to somebody in every district.
    const last = customer <= names ? lastName(customer - 1) : pickName(random, scale, "load");
    const [, ...address] = addressOf(random);
    const credit = random() < 0.1 ? "BC" : "GC";
    yield [
      "customer",
      [
        ...[customer, district, warehouse, letters(random, 8, 16), "OE", last],
        ...[...address, digits(random, 16), LOADED_AT, credit, "50000.00", (random() * 0.5).toFixed(4)],
        ...[`-${PAID.toFixed(2)}`, PAID.toFixed(2), 1, 0, letters(random, 300, 500)],
      ],
    ];
    const history = [customer, district, warehouse, district, warehouse, LOADED_AT];
    yield ["history", [...history, PAID.toFixed(2), letters(random, 12, 24)]];
  }
}

function* orderRows(random: Random, scale: Scale, { warehouse, district }: District): Generator<LoadedRow> {
  const count = scale.customersPerDistrict;
  const customers = shuffled(
    random,
    Array.from({ length: count }, (_, at) => at + 1),
  );
  const firstUndelivered = count - Math.round(UNDELIVERED_SHARE * count) + 1;
  for (const [at, customer] of customers.entries()) {
    const order = at + 1;
    const isDelivered = order < firstUndelivered;
    const lines = whole(random, 5, 15);
    const carrier = isDelivered ? whole(random, 1, 10) : null;
    yield ["orders", [order, district, warehouse, customer, LOADED_AT, carrier, lines, 1]];
    if (!isDelivered) yield ["new_order", [order, district, warehouse]];
    for (let line = 1; line <= lines; line++) {
      const ids = [order, district, warehouse, line, whole(random, 1, scale.items), warehouse];
      const amount = isDelivered ? "0.00" : money(random, 1, 999_999);
      yield ["order_line", [...ids, isDelivered ? LOADED_AT : null, 5, amount, letters(random, 24, 24)]];
    }
  }
}

/** Name and address. */
function addressOf(random: Random): string[] {
  return [
    ...[letters(random, 6, 10), letters(random, 10, 20), letters(random, 10, 20), letters(random, 10, 20)],
    ...[letters(random, 2, 2).toUpperCase(), `${digits(random, 4)}11111`],
  ];
}

function rate(random: Random): string {
  return (random() * 0.2).toFixed(4);
}

function money(random: Random, lowestCents: number, highestCents: number): string {
  return (whole(random, lowestCents, highestCents) / 100).toFixed(2);
}
