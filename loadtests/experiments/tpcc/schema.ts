// TPC-C's nine tables (clause 1.3). `orders` and `history` have names of their own because ORDER is
// a keyword.

export const TABLES = [
  "warehouse",
  "district",
  "customer",
  "history",
  "new_order",
  "orders",
  "order_line",
  "item",
  "stock",
] as const;
export type Table = (typeof TABLES)[number];

const DISTRICT_INFO = Array.from({ length: 10 }, (_, at) => `s_dist_${String(at + 1).padStart(2, "0")}`);

/** Column names and types of every table, in the order in which rows are loaded. */
export const COLUMNS: Readonly<Record<Table, readonly (readonly [name: string, type: string])[]>> = {
  warehouse: [
    ...columns("int", "w_id"),
    ...columns("text", "w_name", "w_street_1", "w_street_2", "w_city", "w_state", "w_zip"),
    ...columns("numeric", "w_tax", "w_ytd"),
  ],
  district: [
    ...columns("int", "d_id", "d_w_id"),
    ...columns("text", "d_name", "d_street_1", "d_street_2", "d_city", "d_state", "d_zip"),
    ...columns("numeric", "d_tax", "d_ytd"),
    ...columns("int", "d_next_o_id"),
  ],
  customer: [
    ...columns("int", "c_id", "c_d_id", "c_w_id"),
    ...columns(
      "text",
      "c_first",
      "c_middle",
      "c_last",
      "c_street_1",
      "c_street_2",
      "c_city",
      "c_state",
      "c_zip",
    ),
    ...columns("text", "c_phone"),
    ...columns("timestamptz", "c_since"),
    ...columns("text", "c_credit"),
    ...columns("numeric", "c_credit_lim", "c_discount", "c_balance", "c_ytd_payment"),
    ...columns("int", "c_payment_cnt", "c_delivery_cnt"),
    ...columns("text", "c_data"),
  ],
  history: [
    ...columns("int", "h_c_id", "h_c_d_id", "h_c_w_id", "h_d_id", "h_w_id"),
    ...columns("timestamptz", "h_date"),
    ...columns("numeric", "h_amount"),
    ...columns("text", "h_data"),
  ],
  new_order: columns("int", "no_o_id", "no_d_id", "no_w_id"),
  orders: [
    ...columns("int", "o_id", "o_d_id", "o_w_id", "o_c_id"),
    ...columns("timestamptz", "o_entry_d"),
    ...columns("int", "o_carrier_id", "o_ol_cnt", "o_all_local"),
  ],
  order_line: [
    ...columns("int", "ol_o_id", "ol_d_id", "ol_w_id", "ol_number", "ol_i_id", "ol_supply_w_id"),
    ...columns("timestamptz", "ol_delivery_d"),
    ...columns("int", "ol_quantity"),
    ...columns("numeric", "ol_amount"),
    ...columns("text", "ol_dist_info"),
  ],
  item: [
    ...columns("int", "i_id", "i_im_id"),
    ...columns("text", "i_name"),
    ...columns("numeric", "i_price"),
    ...columns("text", "i_data"),
  ],
  stock: [
    ...columns("int", "s_i_id", "s_w_id", "s_quantity"),
    ...columns("text", ...DISTRICT_INFO),
    ...columns("numeric", "s_ytd"),
    ...columns("int", "s_order_cnt", "s_remote_cnt"),
    ...columns("text", "s_data"),
  ],
};

function columns(type: string, ...names: readonly string[]): (readonly [string, string])[] {
  return names.map((name) => [name, type]);
}

/** A district's own column of the stock. */
export function districtInfo(district: number): string {
  return `s_dist_${String(district).padStart(2, "0")}`;
}

export function createTables(): string[] {
  return TABLES.map((table) => {
    const list = COLUMNS[table].map(([name, type]) => `${name} ${type}`);
    // Rows that are updated again and again find room for their next version on their own page.
    const room = ["warehouse", "district"].includes(table) ? " WITH (fillfactor = 20)" : "";
    return `CREATE TABLE ${table} (${list.join(", ")})${room}`;
  });
}

/** Behind the load: building an index is cheaper than maintaining it. */
export const CREATE_INDEXES = [
  "ALTER TABLE warehouse ADD PRIMARY KEY (w_id)",
  "ALTER TABLE district ADD PRIMARY KEY (d_w_id, d_id)",
  "ALTER TABLE customer ADD PRIMARY KEY (c_w_id, c_d_id, c_id)",
  "CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first)",
  "ALTER TABLE new_order ADD PRIMARY KEY (no_w_id, no_d_id, no_o_id)",
  "ALTER TABLE orders ADD PRIMARY KEY (o_w_id, o_d_id, o_id)",
  "CREATE INDEX orders_customer ON orders (o_w_id, o_d_id, o_c_id, o_id)",
  "ALTER TABLE order_line ADD PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)",
  "ALTER TABLE item ADD PRIMARY KEY (i_id)",
  "ALTER TABLE stock ADD PRIMARY KEY (s_w_id, s_i_id)",
];
