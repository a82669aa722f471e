# The ECS services of the slots. A slot's old task ends before its new one begins, because both have
# the same name; a change goes through the first half of the slots, waits until they are healthy,
# and then through the second.

resource "aws_ecs_service" "first" {
  for_each = local.halves.first

  name                               = each.key
  cluster                            = aws_ecs_cluster.this.id
  task_definition                    = aws_ecs_task_definition.slot[each.key].arn
  desired_count                      = 1
  launch_type                        = "FARGATE"
  deployment_minimum_healthy_percent = 0
  deployment_maximum_percent         = 100
  wait_for_steady_state              = var.wait_for_steady_state
  enable_ecs_managed_tags            = true
  propagate_tags                     = "SERVICE"

  network_configuration {
    subnets          = [var.network.service_subnet_ids[local.zones[(tonumber(regex("[0-9]+$", each.key)) - 1) % length(local.zones)]]]
    security_groups  = [aws_security_group.slots.id]
    assign_public_ip = false
  }

  service_registries {
    registry_arn = aws_service_discovery_service.this[each.key].arn
  }

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }
}

resource "aws_ecs_service" "second" {
  for_each = local.halves.second

  name                               = each.key
  cluster                            = aws_ecs_cluster.this.id
  task_definition                    = aws_ecs_task_definition.slot[each.key].arn
  desired_count                      = 1
  launch_type                        = "FARGATE"
  deployment_minimum_healthy_percent = 0
  deployment_maximum_percent         = 100
  wait_for_steady_state              = var.wait_for_steady_state
  enable_ecs_managed_tags            = true
  propagate_tags                     = "SERVICE"

  network_configuration {
    subnets          = [var.network.service_subnet_ids[local.zones[(tonumber(regex("[0-9]+$", each.key)) - 1) % length(local.zones)]]]
    security_groups  = [aws_security_group.slots.id]
    assign_public_ip = false
  }

  service_registries {
    registry_arn = aws_service_discovery_service.this[each.key].arn
  }

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  depends_on = [aws_ecs_service.first]
}

# Under load only: their number is the scaling's business.
resource "aws_ecs_service" "burst" {
  for_each = local.burst

  name                               = each.key
  cluster                            = aws_ecs_cluster.this.id
  task_definition                    = aws_ecs_task_definition.slot[each.key].arn
  desired_count                      = 0
  launch_type                        = "FARGATE"
  deployment_minimum_healthy_percent = 0
  deployment_maximum_percent         = 100
  enable_ecs_managed_tags            = true
  propagate_tags                     = "SERVICE"

  network_configuration {
    subnets          = [var.network.service_subnet_ids[local.zones[(tonumber(regex("[0-9]+$", each.key)) - 1) % length(local.zones)]]]
    security_groups  = [aws_security_group.slots.id]
    assign_public_ip = false
  }

  service_registries {
    registry_arn = aws_service_discovery_service.this[each.key].arn
  }

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  lifecycle {
    ignore_changes = [desired_count]
  }

  depends_on = [aws_ecs_service.second]
}
