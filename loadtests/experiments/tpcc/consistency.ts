// The specification's consistency conditions (clause 3.3.2): each is a query that counts what
// violates it. They hold after the load and after every run, whatever was aborted meanwhile.

export interface Condition {
  /** The number of the clause behind 3.3.2. */
  readonly clause: number;
  readonly violations: string;
}

const delivered = `SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS amount FROM orders
  JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
  WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id`;

export const CONDITIONS: readonly Condition[] = [
  {
    clause: 1,
    violations: `SELECT count(*) FROM warehouse
      WHERE w_ytd <> (SELECT sum(d_ytd) FROM district WHERE d_w_id = w_id)`,
  },
  {
    clause: 2,
    violations: `SELECT count(*) FROM district
      LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS last FROM orders GROUP BY 1, 2) o ON o_w_id = d_w_id AND o_d_id = d_id
      LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS last FROM new_order GROUP BY 1, 2) n
        ON no_w_id = d_w_id AND no_d_id = d_id
      WHERE o.last IS DISTINCT FROM d_next_o_id - 1 OR n.last <> d_next_o_id - 1`,
  },
  {
    clause: 3,
    violations: `SELECT count(*) FROM
      (SELECT 1 FROM new_order GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)) v`,
  },
  {
    clause: 4,
    violations: `SELECT count(*) FROM
      (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS lines FROM orders GROUP BY 1, 2) o
      FULL JOIN (SELECT ol_w_id, ol_d_id, count(*) AS lines FROM order_line GROUP BY 1, 2) l
        ON ol_w_id = o_w_id AND ol_d_id = o_d_id
      WHERE o.lines IS DISTINCT FROM l.lines`,
  },
  {
    clause: 5,
    violations: `SELECT count(*) FROM orders
      FULL JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
      WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)`,
  },
  {
    clause: 6,
    violations: `SELECT count(*) FROM orders
      LEFT JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS lines FROM order_line GROUP BY 1, 2, 3) l
        ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
      WHERE o_ol_cnt IS DISTINCT FROM l.lines`,
  },
  {
    clause: 7,
    violations: `SELECT count(*) FROM order_line
      JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
      WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)`,
  },
  {
    clause: 8,
    violations: `SELECT count(*) FROM warehouse
      WHERE w_ytd <> (SELECT sum(h_amount) FROM history WHERE h_w_id = w_id)`,
  },
  {
    clause: 9,
    violations: `SELECT count(*) FROM district
      LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY 1, 2) h
        ON h_w_id = d_w_id AND h_d_id = d_id
      WHERE d_ytd IS DISTINCT FROM h.paid`,
  },
  {
    clause: 10,
    violations: `SELECT count(*) FROM customer
      LEFT JOIN (${delivered}) d ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
      LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history GROUP BY 1, 2, 3) h
        ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
      WHERE c_balance <> coalesce(d.amount, 0) - coalesce(h.paid, 0)`,
  },
  {
    clause: 12,
    violations: `SELECT count(*) FROM customer
      LEFT JOIN (${delivered}) d ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
      WHERE c_balance + c_ytd_payment <> coalesce(d.amount, 0)`,
  },
];

/** Holds only right after the load: as many orders are delivered as the load says. */
export function loadedCondition(deliveredPerDistrict: number): Condition {
  return {
    clause: 11,
    violations: `SELECT count(*) FROM district
      WHERE (SELECT count(*) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
        - (SELECT count(*) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id) <> ${String(deliveredPerDistrict)}`,
  };
}
