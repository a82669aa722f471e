// Patroni's own settings, as named sets: the one that keeps what Highwater promises, and those that
// do not, to show it. All sets name the same keys, so that one can replace another while the
// cluster runs.

export const PATRONI_SETTINGS = {
  /** Promotes only a node that was synchronous, and none at all when that one is gone as well. */
  recommended: {
    synchronous_mode: true,
    synchronous_mode_strict: true,
    maximum_lag_on_failover: 1_099_511_627_776,
    check_timeline: true,
    failsafe_mode: true,
  },
  /** Patroni's default: a node that is not too far behind what the leader published last. */
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
  /** The mode alone, everything else as it comes. */
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
 * What does not change while the cluster runs. ttl and loop_wait are the smallest that Patroni
 * takes.
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
