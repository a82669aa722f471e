# A collector ends with its task: what scrapes a service that is gone is gone, too, and the rules
# cannot see a single one missing (they do see that all are). ECS can.

resource "aws_cloudwatch_metric_alarm" "running" {
  for_each = local.base

  alarm_name          = "${var.name}-${each.key}-running"
  alarm_description   = "${each.key} does not run. Others serve; the ECS service's events and the log /${var.name}/${each.value.kind} say why it does not start."
  namespace           = "ECS/ContainerInsights"
  metric_name         = "RunningTaskCount"
  dimensions          = { ClusterName = aws_ecs_cluster.this.name, ServiceName = each.key }
  statistic           = "Minimum"
  period              = 60
  evaluation_periods  = 5
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  # A region whose monitoring is silent may well be gone.
  treat_missing_data = "breaching"
  alarm_actions      = var.alarm_topic_arns
  ok_actions         = var.alarm_topic_arns
}
