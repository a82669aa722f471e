// What the papers say about the same ratios, by the names that the experiments give them. Only what
// their text says: nothing is read off a picture.
const SEVENTY_FOUR = '0.26 (thesis 4.5); "almost in half" (paper 7.5)';

export const PAPERS: Readonly<Record<string, string>> = {
  "mean of a synchronous commit to one that waits for nothing, 1 ms":
    "more than 10 (paper, figure 5, another zone)",
  "p50 of safe to a synchronous commit, 1 ms": "similar (figures 4.1 and 6)",
  "p50 of safe to a synchronous commit, 16 ms": "similar (figures 4.1 and 6)",
  "p50 of safe to a synchronous commit, 62 ms": "similar (figures 4.1 and 6)",
  "mean of safe to fast reads beside updates, 16 ms": "slightly higher (figure 6b)",
  "mean of fast in a mix of halves to fast alone, 16 ms": "practically unchanged (figure 4.2)",
  "peak of safe to direct_on, 0.95, 16 ms": "1.75 (figure 4.6, 16 clients)",
  "peak of safe to direct_on, uniform, 1 ms": "3: 12,000 to 4,000 (figure 8)",
  "peak of safe to fast, uniform, 1 ms": "0.52: 12,000 to 23,000 (figure 8)",
  "failed tries of safe to a synchronous commit, serializable, 0.50": "0.08 (figure 4.4, 16 clients)",
  "failed tries of safe to a synchronous commit, serializable, 0.80": "0.06 (figure 4.4, 16 clients)",
  "mean latency of new_order, fast to safe, 16 ms": SEVENTY_FOUR,
  "mean latency of new_order with new orders fast to all safe": SEVENTY_FOUR,
  "throughput of new_order with new orders fast to all safe": "1.47 (figure 4.8)",
  "throughput of payment with new orders fast to all safe": "1.475 (figure 4.8)",
  "throughput of order_status with new orders fast to all safe": "1.45 to 1.47 (figure 4.8)",
  "throughput of delivery with new orders fast to all safe": "1.45 to 1.47 (figure 4.8)",
  "throughput of stock_level with new orders fast to all safe": "1.45 to 1.47 (figure 4.8)",
  'peak of "Highwater groups" to "one by one", disk': "5 (Tashkent-MW) and 3 (Tashkent-API), 15 replicas",
  "throughput of a session's reads to plain ones, at the replica, 1% writes":
    "costs 6 to 8% (thesis on multi-version tracking)",
};
