// The shop's tables, as Drizzle knows them.
import { bigint, integer, jsonb, numeric, pgTable, text, timestamp, uuid } from "drizzle-orm/pg-core";

export const product = pgTable("product", {
  id: integer().primaryKey(),
  name: text().notNull().unique(),
  price: numeric({ precision: 10, scale: 2 }).notNull(),
  stock: integer().notNull(),
  tags: text().array().notNull(),
});

export const purchase = pgTable("purchase", {
  id: uuid().primaryKey().defaultRandom(),
  productId: integer()
    .notNull()
    .references(() => product.id),
  quantity: integer().notNull(),
  /** Cents; larger than a float can count. */
  total: bigint({ mode: "bigint" }).notNull(),
  delivery: jsonb().$type<{ readonly city: string; readonly express: boolean }>(),
  boughtAt: timestamp({ withTimezone: true }).notNull().defaultNow(),
});

/** What a migration would do. */
export const CREATE_TABLES = [
  `CREATE TABLE IF NOT EXISTS product (
    id int PRIMARY KEY, name text NOT NULL UNIQUE, price numeric(10, 2) NOT NULL,
    stock int NOT NULL CHECK (stock >= 0), tags text[] NOT NULL)`,
  `CREATE TABLE IF NOT EXISTS purchase (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(), "productId" int NOT NULL REFERENCES product,
    quantity int NOT NULL, total bigint NOT NULL, delivery jsonb,
    "boughtAt" timestamptz NOT NULL DEFAULT now())`,
] as const;
