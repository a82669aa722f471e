# What one task of each kind runs. The same image for both services; only the program and its
# settings differ.

locals {
  shared_environment = {
    HIGHWATER_TOPOLOGY   = var.topology_json
    HIGHWATER_AUTHORITY  = var.authority
    HIGHWATER_DEPLOYMENT = var.deployment
    # The authorities of RDS, which no system's own list has; the image brings them.
    NODE_EXTRA_CA_CERTS = "/etc/highwater/rds-authorities.pem"
  }

  # The edge puts the client's address there, and removes what a client put there. Only edges and
  # services reach a service.
  address_header = "x-envoy-external-address"

  # Edges of all regions send PostgreSQL clients here, each with the client's address. AWS knows no
  # groups across a peering, so the ranges of their subnets stand for them.
  edge_ranges = join(",", concat([var.network.ranges.services], values(var.peer_ranges)[*].services))

  # This region's first.
  gateway_urls = [for gateway in flatten(var.slots.edge_regions[*].gateways) : "https://${gateway.address}:${gateway.port}"]

  environments = {
    for name, slot in local.slots : name => merge(
      local.shared_environment,
      slot.kind == "gateway" ? {
        GATEWAY_NAME              = name
        GATEWAY_REGION            = var.region
        GATEWAY_HOST              = "0.0.0.0"
        GATEWAY_PORT              = tostring(slot.port)
        GATEWAY_TRACKERS          = join(",", var.slots.tracker_urls)
        GATEWAY_AUTH              = "keys"
        GATEWAY_ADDRESS_HEADER    = local.address_header
        GATEWAY_POOL_SIZE         = tostring(var.pools.service)
        GATEWAY_ROLE_POOL_SIZE    = tostring(var.pools.role)
        GATEWAY_EXPOSURE_LEVEL    = var.exposure_level
        GATEWAY_EXPOSURE_GATEWAYS = tostring(var.gateway_count)
        } : {
        TRACKER_NAME           = name
        TRACKER_REGION         = var.region
        TRACKER_HOST           = "0.0.0.0"
        TRACKER_PORT           = tostring(slot.port)
        TRACKER_LEDGER         = "/var/lib/highwater/ledger.sqlite"
        TRACKER_AUTH           = "keys"
        TRACKER_ADDRESS_HEADER = local.address_header
        TRACKER_EXPOSURE_LEVEL = var.exposure_level
        # Nearest first: the console replays lost transactions through its tracker.
        TRACKER_GATEWAYS = join(",", local.gateway_urls)
      },
      local.telemetry_environment,
      { for its in values(local.postgres) : its.variable => tostring(its.port) if slot.kind == "gateway" },
      slot.kind == "gateway" && length(local.postgres) > 0 ? {
        GATEWAY_PG_PROXIES         = local.edge_ranges
        GATEWAY_PG_MAX_CONNECTIONS = tostring(var.postgres_sessions)
        # A client's cancel may come to another gateway than its session.
        GATEWAY_PEERS = join(",", [for url in local.gateway_urls : url if url != "https://${slot.address}:${slot.port}"])
      } : {},
      var.environment[slot.kind],
    )
  }

  shared_secrets = merge(
    { for name in ["PGPASSWORD", "HIGHWATER_INTERNAL_SECRET"] : name => "${var.secret_arns.service}:${name}::" },
    { HIGHWATER_DEPLOYMENT_KEYS = var.secret_arns.deployment },
    local.tls_secrets,
  )
  # What services and edges show, and what they check each other by.
  tls_secrets = {
    for part in ["CERTIFICATE", "KEY", "CA"] : "HIGHWATER_TLS_${part}" => "${var.secret_arns.tls}:HIGHWATER_TLS_${part}::"
  }
  secrets = {
    gateway = merge(local.shared_secrets, { GATEWAY_ROLE_PASSWORDS = var.secret_arns.gateways })
    tracker = local.shared_secrets
  }

  programs = {
    # What belongs to a request in flight outlives the default young generation under load, and is
    # then costly to collect.
    gateway = ["node", "--max-semi-space-size=64", "services/txn-gateway/src/main.ts"]
    # A million pending transactions then take about 300 MiB (docs/guide/durability-levels.md).
    tracker = ["node", "--max-semi-space-size=16", "--heap-growing-percent=25", "services/durability-tracker/src/main.ts"]
  }

  # The process runs. Not /readyz: it says whether there is a primary, and no restart of a task
  # would bring one back. The edge asks that, and sends requests elsewhere. The certificate is for
  # others to check: an expired one must not end a tracker, whose ledger would end with it.
  health = {
    for name, slot in local.slots : name => {
      command     = ["CMD", "node", "-e", "require('node:https').get({ host: '127.0.0.1', port: ${slot.port}, path: '/healthz', rejectUnauthorized: false }, ({ statusCode }) => process.exit(statusCode === 200 ? 0 : 1)).on('error', () => process.exit(1))"]
      interval    = 10
      timeout     = 5
      retries     = 3
      startPeriod = 30
    }
  }

  logging = {
    for kind in ["gateway", "tracker", "edge", "setup"] : kind => {
      logDriver = "awslogs"
      options = {
        "awslogs-group"         = aws_cloudwatch_log_group.this[kind].name
        "awslogs-region"        = var.region
        "awslogs-stream-prefix" = kind
        # A full buffer must not stop a service that commits.
        "mode"            = "non-blocking"
        "max-buffer-size" = "16m"
      }
    }
  }

  # No process gains rights in a container, and only its volumes can be written.
  confined = {
    essential              = true
    readonlyRootFilesystem = true
    privileged             = false
    linuxParameters        = { initProcessEnabled = true, capabilities = { drop = ["ALL"] } }
  }
}

resource "aws_ecs_task_definition" "slot" {
  for_each = local.slots

  family                   = "${var.name}-${each.value.kind}-${regex("[0-9]+$", each.key)}"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.sizes[each.value.kind].cpu
  memory                   = var.sizes[each.value.kind].memory
  execution_role_arn       = aws_iam_role.execution[each.value.kind].arn
  task_role_arn            = aws_iam_role.task.arn

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture
  }

  # The tracker's ledger lives as long as the task. The other trackers hold the same
  # (docs/decisions/0072).
  dynamic "volume" {
    for_each = each.value.kind == "tracker" ? ["ledger"] : []
    content {
      name = volume.value
    }
  }

  container_definitions = jsonencode(concat(
    [
      merge(local.confined, {
        name             = each.value.kind
        image            = var.images.service
        command          = local.programs[each.value.kind]
        user             = "1000"
        environment      = [for name in sort(keys(local.environments[each.key])) : { name = name, value = local.environments[each.key][name] }]
        secrets          = [for name in sort(keys(local.secrets[each.value.kind])) : { name = name, valueFrom = local.secrets[each.value.kind][name] }]
        portMappings     = [for port in concat([each.value.port], each.value.kind == "gateway" ? values(local.postgres)[*].port : []) : { containerPort = port, hostPort = port, protocol = "tcp" }]
        healthCheck      = local.health[each.key]
        logConfiguration = local.logging[each.value.kind]
        mountPoints      = each.value.kind == "tracker" ? [{ sourceVolume = "ledger", containerPath = "/var/lib/highwater", readOnly = false }] : []
        # Longer than what a service takes to end what is open (60 s); Fargate allows no more.
        stopTimeout = 120
        ulimits     = [{ name = "nofile", softLimit = 65536, hardLimit = 65536 }]
      }),
    ],
    [for name, container in local.collectors : container if name == each.key],
  ))
}
