# What PostgreSQL has to do for Highwater, and what is left alone on purpose.
#
# Left alone:
# - synchronous_commit and synchronous_standby_names: the gateway commits with `off` and waits by
#   itself. A user's `on` with a missing standby would hang.
# - fsync and full_page_writes: RDS keeps them on. A node without fsync counts for nothing.
# - wal_level: RDS sets `replica` as long as there are backups.
# - idle_session_timeout: it would end the pools' sessions.
# A transaction pooler such as RDS Proxy must not come between. A token's position is read on the
# session that has committed.

locals {
  family = "postgres${split(".", var.engine_version)[0]}"

  parameters = {
    # Nothing in clear text, and no password as MD5.
    "rds.force_ssl"                     = { value = "1" }
    "password_encryption"               = { value = "scram-sha-256" }
    "rds.accepted_password_auth_method" = { value = "scram", on_restart = true }

    # All nodes alike: a replica with less than its primary stops replaying.
    "max_connections"           = { value = tostring(var.max_connections), on_restart = true }
    "max_prepared_transactions" = { value = "0", on_restart = true }

    # On RDS a node is asked itself, and proves what it has by what it has replayed. A query on the
    # replica must not hold that up: it is cancelled after a second, and the level's mark goes on.
    # And the primary must not keep old rows for it.
    "max_standby_streaming_delay" = { value = "1000" }
    "max_standby_archive_delay"   = { value = "1000" }
    "hot_standby_feedback"        = { value = "0" }

    # A backend whose gateway's host is gone holds its receipt's row until the connection is known
    # to be dead: in about a minute instead of two hours. (The gateway terminates it sooner, where
    # it can.)
    "tcp_keepalives_idle"     = { value = "30" }
    "tcp_keepalives_interval" = { value = "10" }
    "tcp_keepalives_count"    = { value = "3" }

    # An abandoned transaction holds locks. Longer than GATEWAY_IDLE_TIMEOUT_MS, so that the gateway
    # is first.
    "idle_in_transaction_session_timeout" = { value = "120000" }

    # Logs slow statements, lock waits and checkpoints, to find out why a mark stood still.
    "log_min_duration_statement" = { value = "1000" }
    "log_lock_waits"             = { value = "1" }
    "log_checkpoints"            = { value = "1" }
    "log_statement"              = { value = "ddl" }
    "shared_preload_libraries"   = { value = "pg_stat_statements", on_restart = true }

    # The parameters of statements are the data of tenants. Readers of the log should not see them.
    "log_parameter_max_length"          = { value = "0" }
    "log_parameter_max_length_on_error" = { value = "0" }
  }
}

resource "aws_db_parameter_group" "this" {
  name        = "${var.name}-${local.family}"
  family      = local.family
  description = "Highwater: ${var.name}"

  dynamic "parameter" {
    for_each = local.parameters
    content {
      name         = parameter.key
      value        = parameter.value.value
      apply_method = lookup(parameter.value, "on_restart", false) ? "pending-reboot" : "immediate"
    }
  }

  lifecycle {
    # An instance cannot be without one.
    create_before_destroy = true
  }
}
