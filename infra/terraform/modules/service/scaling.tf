# When burst slots join and leave. Gateways by their CPU and by what waits for a database session,
# trackers by their streams, edges by their CPU. A slot joins later and leaves sooner the higher its
# place, so that they come one after the other.

locals {
  cluster_and   = { for name in keys(local.base) : name => { ClusterName = aws_ecs_cluster.this.name, ServiceName = name } }
  base_gateways = sort([for name, slot in local.base : name if slot.kind == "gateway"])

  # Ten services at most in one expression: CloudWatch looks at no more.
  cpu_names = slice(local.base_gateways, 0, min(8, length(local.base_gateways)))

  busy = {
    gateway = "IF(AVG(METRICS(\"cpu\")) > ${var.scaling.gateway_cpu_percent} || FILL(waiting, 0) > ${var.scaling.gateway_queue}, 1, 0)"
    tracker = "IF(FILL(waiting, 0) > ${var.scaling.tracker_streams}, 1, 0)"
  }
  calm = {
    gateway = "IF(AVG(METRICS(\"cpu\")) < ${var.scaling.gateway_cpu_percent / 3} && FILL(waiting, 0) < 1, 1, 0)"
    tracker = "IF(FILL(waiting, 0) < ${floor(var.scaling.tracker_streams / 3)}, 1, 0)"
  }
  burst_of = { gateway = var.slots.gateways, tracker = var.slots.trackers }

  moves = {
    for pair in setproduct(keys(local.burst), ["join", "leave"]) : "${pair[0]}/${pair[1]}" => {
      slot       = pair[0]
      kind       = local.burst[pair[0]].kind
      move       = pair[1]
      expression = pair[1] == "join" ? local.busy[local.burst[pair[0]].kind] : local.calm[local.burst[pair[0]].kind]
      # Minutes in a row.
      periods = pair[1] == "join" ? 2 * local.burst[pair[0]].burst : 15 + 5 * (
        max(0, [for slot in local.burst_of[local.burst[pair[0]].kind] : slot.burst]...) - local.burst[pair[0]].burst
      )
    }
  }
}

resource "aws_appautoscaling_target" "burst" {
  for_each = local.burst

  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "service/${aws_ecs_cluster.this.name}/${aws_ecs_service.burst[each.key].name}"
  min_capacity       = 0
  max_capacity       = 1
}

resource "aws_appautoscaling_policy" "burst" {
  for_each = local.moves

  name               = "${each.value.slot}-${each.value.move}"
  policy_type        = "StepScaling"
  service_namespace  = aws_appautoscaling_target.burst[each.value.slot].service_namespace
  scalable_dimension = aws_appautoscaling_target.burst[each.value.slot].scalable_dimension
  resource_id        = aws_appautoscaling_target.burst[each.value.slot].resource_id

  step_scaling_policy_configuration {
    adjustment_type         = "ExactCapacity"
    cooldown                = 300
    metric_aggregation_type = "Maximum"
    step_adjustment {
      metric_interval_lower_bound = 0
      scaling_adjustment          = each.value.move == "join" ? 1 : 0
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "burst" {
  for_each = local.moves

  alarm_name          = "${var.name}-${each.value.slot}-${each.value.move}"
  alarm_description   = "Scaling: ${each.value.slot} should ${each.value.move}. No one has to do anything."
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = 1
  evaluation_periods  = each.value.periods
  # Without a collector there is no queue to see, and CPU decides alone.
  treat_missing_data = "notBreaching"
  alarm_actions      = [aws_appautoscaling_policy.burst[each.key].arn]

  metric_query {
    id          = "decision"
    expression  = each.value.expression
    label       = each.value.move
    return_data = true
  }

  metric_query {
    id = "waiting"
    metric {
      namespace   = module.collector.scaling.namespace
      metric_name = module.collector.scaling.metrics[each.value.kind]
      dimensions  = module.collector.scaling.dimensions
      stat        = "Maximum"
      period      = 60
    }
  }

  dynamic "metric_query" {
    for_each = each.value.kind == "gateway" ? local.cpu_names : []
    content {
      id = "cpu${metric_query.key + 1}"
      metric {
        namespace   = "AWS/ECS"
        metric_name = "CPUUtilization"
        dimensions  = local.cluster_and[metric_query.value]
        stat        = "Average"
        period      = 60
      }
    }
  }
}

resource "aws_appautoscaling_target" "edge" {
  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "service/${aws_ecs_cluster.this.name}/${aws_ecs_service.edge.name}"
  min_capacity       = var.edges.min
  max_capacity       = var.edges.max
}

resource "aws_appautoscaling_policy" "edge" {
  name               = "cpu"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.edge.service_namespace
  scalable_dimension = aws_appautoscaling_target.edge.scalable_dimension
  resource_id        = aws_appautoscaling_target.edge.resource_id

  target_tracking_scaling_policy_configuration {
    target_value       = 60
    scale_out_cooldown = 60
    # Streams hang on the edge that leaves.
    scale_in_cooldown = 900
    predefined_metric_specification {
      predefined_metric_type = "ECSServiceAverageCPUUtilization"
    }
  }
}
