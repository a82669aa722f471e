# The region's Envoys. A first container makes their configuration from the small source that is
# rendered here, with the same program that makes it everywhere (infra/envoy); nothing of Envoy's
# own configuration is written twice.

locals {
  edge_folder = "/etc/highwater-edge"
  # By name, the variable that a file of the folder is made from.
  edge_files = {
    "authority.pem" = "HIGHWATER_TLS_CA"
    "source.json"   = "EDGE_SOURCE"
    "tls.crt"       = "HIGHWATER_TLS_CERTIFICATE"
    "tls.key"       = "HIGHWATER_TLS_KEY"
  }
  edge_source = {
    region = var.region
    listen = merge(
      {
        address = "0.0.0.0"
        port    = local.edge_port
        tls     = { certificate = "${local.edge_folder}/tls.crt", key = "${local.edge_folder}/tls.key" }
      },
      { for its in values(local.postgres) : its.field => its.edge_port },
    )
    operators        = { address = "0.0.0.0", port = local.operators_port }
    directory        = local.edge_folder
    adminSocket      = "${local.edge_folder}/admin.sock"
    serviceAuthority = "${local.edge_folder}/authority.pem"
    regions = [for region in var.slots.edge_regions : merge(region, {
      gateways = [for gateway in region.gateways : { for field, value in gateway : field => value if value != null }]
    })]
    # The load balancer alone says whom it speaks for.
    trustedProxies = 1
    limits = {
      gatewayBodyBytes = tonumber(lookup(var.environment.gateway, "GATEWAY_BODY_LIMIT_BYTES", "4194304"))
      trackerBodyBytes = tonumber(lookup(var.environment.tracker, "TRACKER_BODY_LIMIT_BYTES", "16777216"))
    }
  }
}

resource "aws_ecs_task_definition" "edge" {
  family                   = "${var.name}-edge"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.sizes.edge.cpu
  memory                   = var.sizes.edge.memory
  execution_role_arn       = aws_iam_role.execution["edge"].arn
  task_role_arn            = aws_iam_role.task.arn

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture
  }

  volume {
    name = "configuration"
  }

  container_definitions = jsonencode([
    merge(local.confined, {
      name      = "configuration"
      image     = var.images.service
      essential = false
      user      = "1000"
      # Only the folder's user may read the files: one is a private key.
      command = ["sh", "-c", join(" && ", concat(
        ["umask 077"],
        [for file, variable in local.edge_files : format("printf %%s \"$%s\" > %s/%s", variable, local.edge_folder, file)],
        ["exec node infra/envoy/src/cli.ts ${local.edge_folder}/source.json"],
      ))]
      environment      = [{ name = "EDGE_SOURCE", value = jsonencode(local.edge_source) }]
      secrets          = [for name, value in local.tls_secrets : { name = name, valueFrom = value }]
      mountPoints      = [{ sourceVolume = "configuration", containerPath = local.edge_folder, readOnly = false }]
      logConfiguration = local.logging.edge
    }),
    merge(local.confined, {
      name       = "edge"
      image      = var.images.envoy
      entryPoint = ["envoy"]
      command    = ["-c", "${local.edge_folder}/envoy.json", "--log-level", "warn", "--drain-time-s", "60"]
      # As the container that has made the folder.
      user             = "1000"
      portMappings     = [for port in concat([local.edge_port, local.operators_port], values(local.postgres)[*].edge_port) : { containerPort = port, hostPort = port, protocol = "tcp" }]
      dependsOn        = [{ containerName = "configuration", condition = "SUCCESS" }]
      mountPoints      = [{ sourceVolume = "configuration", containerPath = local.edge_folder, readOnly = false }]
      logConfiguration = local.logging.edge
      stopTimeout      = 120
      ulimits          = [{ name = "nofile", softLimit = 65536, hardLimit = 65536 }]
    }),
  ])
}

resource "aws_ecs_service" "edge" {
  name            = "edge"
  cluster         = aws_ecs_cluster.this.id
  task_definition = aws_ecs_task_definition.edge.arn
  desired_count   = var.edges.min
  launch_type     = "FARGATE"
  # A new one serves before an old one goes.
  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  # An edge is ready when a gateway and a tracker live that it can reach: those of its own region
  # are started with it, and pull their images first.
  health_check_grace_period_seconds = 300
  enable_ecs_managed_tags           = true
  propagate_tags                    = "SERVICE"

  network_configuration {
    subnets          = values(var.network.service_subnet_ids)
    security_groups  = [aws_security_group.edge.id]
    assign_public_ip = false
  }

  load_balancer {
    target_group_arn = aws_lb_target_group.edge.arn
    container_name   = "edge"
    container_port   = local.edge_port
  }

  dynamic "load_balancer" {
    for_each = aws_lb_target_group.postgres
    content {
      target_group_arn = load_balancer.value.arn
      container_name   = "edge"
      container_port   = load_balancer.value.port
    }
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

# The load balancer in front is `edge`'s; the group is here, because ECS keeps its members.
resource "aws_lb_target_group" "edge" {
  name        = substr(var.name, 0, 32)
  vpc_id      = var.network.vpc_id
  target_type = "ip"
  # The load balancer encrypts. It checks no certificate of a target.
  protocol = "HTTPS"
  port     = local.edge_port
  # A request that waits for durability may take minutes; a stream is resumed elsewhere.
  deregistration_delay = 60

  health_check {
    protocol            = "HTTP"
    port                = local.operators_port
    path                = "/readyz"
    matcher             = "200"
    interval            = 5
    timeout             = 3
    healthy_threshold   = 2
    unhealthy_threshold = 2
  }
}

# For the load balancer that passes PostgreSQL clients on.
resource "aws_lb_target_group" "postgres" {
  for_each = local.postgres

  name        = "${substr(var.name, 0, 31 - length(each.key))}-${each.key}"
  vpc_id      = var.network.vpc_id
  target_type = "ip"
  protocol    = "TCP"
  port        = each.value.edge_port
  # The edge sees the client's address, and sends it to the gateway.
  preserve_client_ip = true
  # A session has so long to end before its edge does.
  deregistration_delay = 60

  health_check {
    protocol            = "HTTP"
    port                = local.operators_port
    path                = "/readyz"
    matcher             = "200"
    interval            = 5
    timeout             = 3
    healthy_threshold   = 2
    unhealthy_threshold = 2
  }
}
