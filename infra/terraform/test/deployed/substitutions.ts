// Everything in which the system on one machine differs from what Terraform would deploy. Nothing else is changed; a test
// prints the table and holds docs/deploy-aws.md against it.

const SUBSTITUTIONS: readonly (readonly [deployed: string, here: string])[] = [
  [
    "A task's network of its own",
    "a loopback address: a preload puts it in place of `0.0.0.0` for listening and of `127.0.0.1` for connecting; the edge's source has it in place of `0.0.0.0`",
  ],
  [
    "Names of the databases and of Cloud Map",
    "for Node a table in the same preload, which reaches other regions over links that are delayed and can be cut; for Envoy a name server, added to its command by `--config-yaml`",
  ],
  ["Paths in a container", "the same path in a folder of the task; the repository for `/app`"],
  ["The authorities of RDS", "the test's own authority, which signs for the names of the databases"],
  [
    "Values of secrets",
    "the test's own values, found by the task's `valueFrom`; `service-certificate.sh` makes that of `tls`",
  ],
  [
    "RDS",
    "the development cluster: another version of PostgreSQL, no Multi-AZ standby, and every parameter except `rds.…`, which `pg_hba.conf` replaces",
  ],
  ["`promote-read-replica`, and recreated replicas", "`pg_promote()`, and a fresh copy of the promoted node"],
  [
    "Load balancer, its TLS and DNS",
    "clients know all regions, nearest first; the test forwards their connections by the protocol of the target group, and checks targets as it does",
  ],
  ["Two edges in each region", "one edge, with `--use-dynamic-base-id` because they share a machine"],
  ["Slots under load, the collector, limits of a container, its user and read-only file system", "not there"],
];

/** As the documentation has it. */
export function substitutionsTable(): string {
  const rows = SUBSTITUTIONS.map(([deployed, here]) => `| ${deployed} | ${here} |`);
  return ["| deployed | here |", "| --- | --- |", ...rows].join("\n");
}
