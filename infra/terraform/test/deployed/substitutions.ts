// Everything in which the system on one machine differs from what Terraform would deploy. Nothing else is changed; a test
// prints the table and holds docs/deploy-aws.md against it.

export const SUBSTITUTIONS: readonly (readonly [deployed: string, here: string])[] = [
  [
    "A task's network of its own",
    "a loopback address: for `0.0.0.0` where it listens, for `127.0.0.1` where it connects, by a preload; in the edge's source for `0.0.0.0`",
  ],
  [
    "Names of the databases and of Cloud Map",
    "for Node a table in the same preload, in which other regions are reached over links that are delayed and can be cut; for Envoy a name server, added to its command by `--config-yaml`",
  ],
  ["Paths in a container", "the same path in a folder of the task; the repository for `/app`"],
  ["The authorities of RDS", "an authority of the test's own, which signs for the databases' very names"],
  [
    "Values of secrets",
    "values of the test's own, found by the task's `valueFrom`; that of `tls` is made by `service-certificate.sh`",
  ],
  [
    "RDS",
    "the dev cluster: another version of PostgreSQL, no Multi-AZ standby, every parameter but `rds.…`, whose meaning `pg_hba.conf` has",
  ],
  ["`promote-read-replica`, and replicas made anew", "`pg_promote()`, and a fresh copy of the promoted node"],
  [
    "Load balancer, its TLS and DNS",
    "clients know all regions, the nearest first; their connections are passed on by the protocol of the target group, and targets are asked as it asks them",
  ],
  ["Two edges in each region", "one; `--use-dynamic-base-id`, because they share a machine"],
  ["Slots under load, the collector, limits of a container, its user and read-only file system", "not there"],
];

/** As the documentation has it. */
export function substitutionsTable(): string {
  const rows = SUBSTITUTIONS.map(([deployed, here]) => `| ${deployed} | ${here} |`);
  return ["| deployed | here |", "| --- | --- |", ...rows].join("\n");
}
