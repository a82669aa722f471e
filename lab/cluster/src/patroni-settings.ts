// Named sets of Patroni's own settings: one that keeps Highwater's promises, and others to show
// that they do not. All sets have the same keys, so that one can replace another while the cluster
// runs.

export const PATRONI_SETTINGS = {
  /** Promotes only a synchronous node, and no node at all if that one has failed, too. */
  recommended: {
    synchronous_mode: true,
    synchronous_mode_strict: true,
    maximum_lag_on_failover: 1_099_511_627_776,
    check_timeline: true,
    failsafe_mode: true,
  },
  /** Patroni's default: a node that is not too far behind the leader's last published position. */
  asynchronous: {
    synchronous_mode: false,
    synchronous_mode_strict: false,
    maximum_lag_on_failover: 1_048_576,
    check_timeline: false,
    failsafe_mode: false,
  },
  asynchronous_without_lag: {
    synchronous_mode: false,
    synchronous_mode_strict: false,
    maximum_lag_on_failover: 0,
    check_timeline: false,
    failsafe_mode: false,
  },
  quorum: {
    synchronous_mode: "quorum",
    synchronous_mode_strict: false,
    maximum_lag_on_failover: 1_099_511_627_776,
    check_timeline: true,
    failsafe_mode: false,
  },
  quorum_without_lag: {
    synchronous_mode: "quorum",
    synchronous_mode_strict: false,
    maximum_lag_on_failover: 0,
    check_timeline: true,
    failsafe_mode: false,
  },
  /** Only the mode; everything else has its default. */
  synchronous: {
    synchronous_mode: true,
    synchronous_mode_strict: false,
    maximum_lag_on_failover: 1_048_576,
    check_timeline: false,
    failsafe_mode: false,
  },
} as const;

export type PatroniSettings = keyof typeof PATRONI_SETTINGS;

/**
 * Settings that do not change while the cluster runs. ttl and loop_wait are the smallest that
 * Patroni accepts.
 */
export function dynamicConfiguration(settings: PatroniSettings, synchronousNodes: number): unknown {
  return {
    ttl: 20,
    loop_wait: 1,
    retry_timeout: 3,
    ...PATRONI_SETTINGS[settings],
    synchronous_node_count: synchronousNodes,
    primary_start_timeout: 0,
    primary_stop_timeout: 10,
    postgresql: {
      use_pg_rewind: true,
      remove_data_directory_on_rewind_failure: true,
      remove_data_directory_on_diverged_timelines: true,
      parameters: { restart_after_crash: "off", wal_keep_size: "256MB" },
    },
  };
}
