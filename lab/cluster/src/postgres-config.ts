// Writes the text of a node's configuration files.

import { DevClusterError } from "./errors.ts";

const baseSettings: Readonly<Record<string, string>> = {
  listen_addresses: "127.0.0.1",
  unix_socket_directories: "",
  max_connections: "250",
  shared_buffers: "64MB",
  // Files in the data directory instead of /dev/shm, which is small in containers and keeps a
  // killed server's files.
  dynamic_shared_memory_type: "mmap",
  fsync: "on",
  wal_level: "replica",
  max_wal_size: "1GB",
  min_wal_size: "80MB",
  hot_standby: "on",
  max_wal_senders: "16",
  wal_keep_size: "512MB",
  wal_sender_timeout: "5s",
  wal_receiver_timeout: "5s",
  wal_receiver_status_interval: "1s",
  wal_retrieve_retry_interval: "100ms",
  log_line_prefix: "%m [%p] %q%a ",
  log_timezone: "UTC",
  timezone: "UTC",
  lc_messages: "C",
};

export function clusterConfig(id: string, port: number, extra: Readonly<Record<string, string>>): string {
  const settings = { ...baseSettings, ...extra, port: String(port), cluster_name: id };
  const lines = Object.entries(settings).map(([name, value]) => {
    if (!/^[a-z_][a-z0-9_.]*$/i.test(name) || /[\r\n]/.test(value))
      throw new DevClusterError("BAD_OPTION", `not a PostgreSQL setting: ${name} = ${value}`);
    return `${name} = '${value.replaceAll("'", "''")}'`;
  });
  return lines.join("\n") + "\n";
}

/** A replica's connection to its upstream. pg_stat_replication on the primary shows the name. */
export function conninfo(id: string, port: number): string {
  return [
    `host=127.0.0.1 port=${port} user=postgres application_name=${id}`,
    "connect_timeout=2 sslmode=disable gssencmode=disable tcp_user_timeout=5000",
  ].join(" ");
}

/** The settings of ALTER SYSTEM without the upstream, which differs from node to node. */
export function withoutConninfo(autoConf: string): string {
  const lines = autoConf
    .split("\n")
    .filter((line) => line.trim() !== "" && !/^\s*primary_conninfo\s*=/i.test(line));
  return lines.map((line) => line + "\n").join("");
}
