# The gateways, trackers and edges of one region on Fargate. Each gateway and tracker is a slot: an
# ECS service of one task whose name and private address never change. Open transactions are pinned
# to a gateway by its name, gateways know every tracker, and two running services must never share a
# name (docs/decisions/0072). All edges are alike.

locals {
  slots = merge(
    { for slot in var.slots.gateways : slot.name => merge(slot, { kind = "gateway" }) },
    { for slot in var.slots.trackers : slot.name => merge(slot, { kind = "tracker" }) },
  )
  base = { for name, slot in local.slots : name => slot if slot.burst == 0 }
  # In two halves, gateways and trackers in both, so that a change never stops all of either at
  # once.
  halves = {
    first  = { for name, slot in local.base : name => slot if tonumber(regex("[0-9]+$", name)) % 2 == 1 }
    second = { for name, slot in local.base : name => slot if tonumber(regex("[0-9]+$", name)) % 2 == 0 }
  }
  burst = { for name, slot in local.slots : name => slot if slot.burst > 0 }

  zones     = sort(keys(var.network.service_subnet_ids))
  edge_port = 8080
  # Where gateways take PostgreSQL clients, if they do, and where the edges in front take them.
  postgres = {
    for name, its in {
      postgres = { ports = distinct(var.slots.gateways[*].postgres_port), variable = "GATEWAY_PG_PORT", field = "postgresPort", edge_port = 5432 }
      reads    = { ports = distinct(var.slots.gateways[*].postgres_read_port), variable = "GATEWAY_PG_READ_PORT", field = "postgresReadPort", edge_port = 5433 }
    } : name => merge(its, { port = one(its.ports) }) if one(its.ports) != null
  }
  # For the load balancer's health checks and for scraping; not reachable from outside.
  operators_port = 9901
}

resource "aws_ecs_cluster" "this" {
  name = var.name

  setting {
    name  = "containerInsights"
    value = "enabled"
  }
}

resource "aws_cloudwatch_log_group" "this" {
  for_each = toset(["gateway", "tracker", "edge", "setup"])

  name              = "/${var.name}/${each.key}"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
}

resource "aws_service_discovery_private_dns_namespace" "this" {
  name        = "${var.region}.${var.domain}"
  description = "Gateways and trackers of ${var.name}"
  vpc         = var.network.vpc_id

  lifecycle {
    # Other regions' networks are associated with its zone by the composition.
    ignore_changes = [vpc]
  }
}

resource "aws_service_discovery_service" "this" {
  for_each = local.slots

  name = split(".", each.value.address)[0]

  dns_config {
    namespace_id   = aws_service_discovery_private_dns_namespace.this.id
    routing_policy = "MULTIVALUE"
    dns_records {
      type = "A"
      # A slot that restarts has another address.
      ttl = 5
    }
  }
}
