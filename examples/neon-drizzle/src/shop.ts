// A small shop, written for a Neon database: it knows nothing of the service that runs its
// transactions.
import { neon, type NeonQueryFunction } from "@neondatabase/serverless";
import { asc, eq, sql } from "drizzle-orm";
import { drizzle, type NeonHttpDatabase } from "drizzle-orm/neon-http";
import { CREATE_TABLES, product, purchase } from "./schema.ts";

export type Product = typeof product.$inferSelect;
export type Purchase = typeof purchase.$inferSelect;

export interface Order {
  readonly productId: number;
  readonly quantity: number;
  readonly delivery?: Purchase["delivery"];
}

export class Shop {
  readonly #client: NeonQueryFunction<false, false>;
  readonly #database: NeonHttpDatabase;

  constructor(connectionString: string) {
    this.#client = neon(connectionString);
    this.#database = drizzle({ client: this.#client });
  }

  async open(): Promise<void> {
    await this.#client.transaction((client) => CREATE_TABLES.map((text) => client.query(text)));
  }

  async offer(products: readonly Product[]): Promise<Product[]> {
    return this.#database
      .insert(product)
      .values([...products])
      .onConflictDoNothing()
      .returning();
  }

  async products(): Promise<Product[]> {
    return this.#database.select().from(product).orderBy(asc(product.id));
  }

  /** One batch is one transaction: stock and purchase change together, or neither does. */
  async buy({ productId, quantity, delivery = null }: Order): Promise<Purchase> {
    const total = sql`(SELECT price * 100 * ${quantity} FROM product WHERE id = ${productId})::bigint`;
    const [, [bought]] = await this.#database.batch([
      this.#database
        .update(product)
        .set({ stock: sql`${product.stock} - ${quantity}` })
        .where(eq(product.id, productId)),
      this.#database.insert(purchase).values({ productId, quantity, total, delivery }).returning(),
    ]);
    if (bought === undefined) throw new Error("an insert returned no row");
    return bought;
  }

  async turnover(): Promise<{ readonly name: string; readonly sold: string }[]> {
    return this.#database
      .select({ name: product.name, sold: sql<string>`sum(${purchase.quantity})` })
      .from(purchase)
      .innerJoin(product, eq(purchase.productId, product.id))
      .groupBy(product.name)
      .orderBy(asc(product.name));
  }
}
