# Alarms for what only RDS knows. The services' own metrics and alerts cover marks, exposure and
# losses.

locals {
  gibibyte = 1073741824

  alarms = merge(
    {
      storage = {
        metric      = "FreeStorageSpace"
        comparison  = "LessThanThreshold"
        threshold   = max(5, var.storage.allocated_gib * 0.1) * local.gibibyte
        description = "Little storage is left. A full node takes no writes."
      }
      sessions = {
        metric      = "DatabaseConnections"
        comparison  = "GreaterThanThreshold"
        threshold   = var.max_connections * 0.9
        description = "Nearly all sessions are taken. Gateways that are refused one refuse transactions."
      }
      cpu = {
        metric      = "CPUUtilization"
        comparison  = "GreaterThanThreshold"
        threshold   = 90
        description = "The node has no processor time left. A replica like this falls behind."
      }
      transaction_ids = {
        metric      = "MaximumUsedTransactionIDs"
        comparison  = "GreaterThanThreshold"
        threshold   = 1000000000
        description = "Half of the transaction ids are used since the oldest vacuum. At two thousand million PostgreSQL stops."
      }
    },
    !local.is_replica ? {
      slot_lag = {
        metric      = "OldestReplicationSlotLag"
        comparison  = "GreaterThanThreshold"
        threshold   = max(2, var.storage.allocated_gib * 0.1) * local.gibibyte
        description = "A replica is far behind or cut off, and the primary keeps the log for it."
      }
      } : {
      replica_lag = {
        metric      = "ReplicaLag"
        comparison  = "GreaterThanThreshold"
        threshold   = var.replica_lag_alarm_s
        description = "The replica replays late. Levels that count it wait, and exposure grows."
      }
    },
  )
}

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each = local.alarms

  alarm_name          = "${var.name}-postgres-${replace(each.key, "_", "-")}"
  alarm_description   = each.value.description
  namespace           = "AWS/RDS"
  metric_name         = each.value.metric
  dimensions          = { DBInstanceIdentifier = aws_db_instance.this.identifier }
  statistic           = "Average"
  period              = 60
  evaluation_periods  = 5
  datapoints_to_alarm = 4
  comparison_operator = each.value.comparison
  threshold           = each.value.threshold
  # A node that says nothing is not well.
  treat_missing_data = "breaching"
  alarm_actions      = var.alarm_topic_arns
  ok_actions         = var.alarm_topic_arns
}
