# The workspace itself: without these alarms, an alert that cannot be sent, or a rule that cannot be
# evaluated, would be silence.

locals {
  alarms = {
    notifications-failed = {
      namespace   = "AWS/Prometheus"
      metric      = "AlertManagerNotificationsFailed"
      dimensions  = { Workspace = aws_prometheus_workspace.this.id }
      description = "Alerts could not be sent to the topic: does its policy, and that of its key, let Prometheus send?"
    }
    notifications-throttled = {
      namespace   = "AWS/Prometheus"
      metric      = "AlertManagerNotificationsThrottled"
      dimensions  = { Workspace = aws_prometheus_workspace.this.id }
      description = "More alerts than may be sent. Look at the workspace, not at the mail."
    }
    # It writes there only what goes wrong.
    complaints = {
      namespace   = "AWS/Logs"
      metric      = "IncomingLogEvents"
      dimensions  = { LogGroupName = aws_cloudwatch_log_group.this.name }
      description = "The workspace complains about a rule or a notification: ${aws_cloudwatch_log_group.this.name} says of what."
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each = local.alarms

  alarm_name          = "${var.name}-prometheus-${each.key}"
  alarm_description   = each.value.description
  namespace           = each.value.namespace
  metric_name         = each.value.metric
  dimensions          = each.value.dimensions
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 3
  datapoints_to_alarm = 2
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  # Nothing is said as long as nothing goes wrong.
  treat_missing_data = "notBreaching"
  alarm_actions      = [var.topic_arn]
  ok_actions         = [var.topic_arn]
}
