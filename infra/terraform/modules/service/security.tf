# Who may talk to whom. Everything else is refused, the way out included. Within the region by
# group; of another region only the range of its tasks' subnets can be named, because AWS knows no
# groups across a peering of regions.

locals {
  ports = toset([for slot in values(local.slots) : tostring(slot.port)])
  # Only edges bring PostgreSQL clients to gateways.
  edge_only_ports = toset([for its in values(local.postgres) : tostring(its.port)])
  groups = {
    slots = aws_security_group.slots.id
    edge  = aws_security_group.edge.id
  }
  # Gateways announce to trackers, and the last step of a failover, which runs in the group of the
  # slots, asks gateways.
  callers = merge(local.groups, { for name, id in var.operator_security_group_ids : "operators ${name}" => id })
  # Services of the other regions: gateways announce to every tracker, edges turn to other regions'
  # services.
  peer_ports = { for pair in setproduct(keys(var.peer_ranges), setunion(local.ports, local.edge_only_ports)) : "${pair[0]}/${pair[1]}" => { region = pair[0], port = tonumber(pair[1]) } }
}

resource "aws_security_group" "slots" {
  name        = "${var.name}-services"
  description = "Gateways and trackers"
  vpc_id      = var.network.vpc_id
  tags        = { Name = "${var.name}-services" }
}

resource "aws_security_group" "edge" {
  name        = "${var.name}-edge-tasks"
  description = "Envoy"
  vpc_id      = var.network.vpc_id
  tags        = { Name = "${var.name}-edge-tasks" }
}

resource "aws_vpc_security_group_ingress_rule" "slots" {
  for_each = { for pair in setunion(setproduct(keys(local.callers), local.ports), setproduct(["edge"], local.edge_only_ports)) : "${pair[0]}/${pair[1]}" => { caller = pair[0], port = tonumber(pair[1]) } }

  security_group_id            = aws_security_group.slots.id
  description                  = "This region: ${each.value.caller}"
  referenced_security_group_id = local.callers[each.value.caller]
  ip_protocol                  = "tcp"
  from_port                    = each.value.port
  to_port                      = each.value.port
}

resource "aws_vpc_security_group_ingress_rule" "slots_peers" {
  for_each = local.peer_ports

  security_group_id = aws_security_group.slots.id
  description       = "Edges and services of ${each.value.region}"
  cidr_ipv4         = var.peer_ranges[each.value.region].services
  ip_protocol       = "tcp"
  from_port         = each.value.port
  to_port           = each.value.port
}

resource "aws_vpc_security_group_egress_rule" "services" {
  for_each = { for pair in setunion(setproduct(keys(local.groups), local.ports), setproduct(["edge"], local.edge_only_ports)) : "${pair[0]}/${pair[1]}" => { caller = pair[0], port = tonumber(pair[1]) } }

  security_group_id            = local.groups[each.value.caller]
  description                  = "Services of this region"
  referenced_security_group_id = aws_security_group.slots.id
  ip_protocol                  = "tcp"
  from_port                    = each.value.port
  to_port                      = each.value.port
}

resource "aws_vpc_security_group_egress_rule" "services_peers" {
  for_each = {
    for pair in setproduct(keys(local.groups), keys(local.peer_ports)) : "${pair[0]}/${pair[1]}" => merge({ caller = pair[0] }, local.peer_ports[pair[1]])
    if pair[0] == "edge" || !contains(local.edge_only_ports, tostring(local.peer_ports[pair[1]].port))
  }

  security_group_id = local.groups[each.value.caller]
  description       = "Services of ${each.value.region}"
  cidr_ipv4         = var.peer_ranges[each.value.region].services
  ip_protocol       = "tcp"
  from_port         = each.value.port
  to_port           = each.value.port
}

resource "aws_vpc_security_group_egress_rule" "databases" {
  for_each = var.database_security_group_ids

  security_group_id            = aws_security_group.slots.id
  description                  = "The database of ${each.key}"
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = 5432
  to_port                      = 5432
}

resource "aws_vpc_security_group_egress_rule" "databases_peers" {
  for_each = var.peer_ranges

  security_group_id = aws_security_group.slots.id
  description       = "Databases of ${each.key}"
  cidr_ipv4         = each.value.databases
  ip_protocol       = "tcp"
  from_port         = 5432
  to_port           = 5432
}

resource "aws_vpc_security_group_ingress_rule" "edge" {
  for_each = merge({ requests = local.edge_port, health = local.operators_port }, { for name, its in local.postgres : name => its.edge_port })

  security_group_id            = aws_security_group.edge.id
  description                  = "The load balancer: ${each.key}"
  referenced_security_group_id = var.load_balancer_security_group_id
  ip_protocol                  = "tcp"
  from_port                    = each.value
  to_port                      = each.value
}

# The edge's own health and metrics.
resource "aws_vpc_security_group_ingress_rule" "edge_operators" {
  for_each = var.operator_security_group_ids

  security_group_id            = aws_security_group.edge.id
  description                  = "Operators: ${each.key}"
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = local.operators_port
  to_port                      = local.operators_port
}

# AWS itself: secrets, keys, logs, metrics, images.
resource "aws_vpc_security_group_egress_rule" "endpoints" {
  for_each = { slots = aws_security_group.slots.id, edge = aws_security_group.edge.id }

  security_group_id            = each.value
  description                  = "Endpoints of AWS"
  referenced_security_group_id = var.network.endpoint_security_group_id
  ip_protocol                  = "tcp"
  from_port                    = 443
  to_port                      = 443
}

# Workspaces of other regions, by those regions' endpoints.
resource "aws_vpc_security_group_egress_rule" "workspaces" {
  for_each = { for region, ranges in var.peer_ranges : region => ranges.services if contains(keys(var.metrics_workspaces), region) }

  security_group_id = aws_security_group.slots.id
  description       = "Metrics to ${each.key}"
  cidr_ipv4         = each.value
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_vpc_security_group_egress_rule" "images" {
  for_each = { slots = aws_security_group.slots.id, edge = aws_security_group.edge.id }

  security_group_id = each.value
  description       = "Layers of images in S3"
  prefix_list_id    = var.network.s3_prefix_list_id
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

# Webhooks go to addresses that are not known beforehand; the tracker itself refuses private ones.
resource "aws_vpc_security_group_egress_rule" "internet" {
  count = var.internet_egress ? 1 : 0

  security_group_id = aws_security_group.slots.id
  description       = "Webhooks and key sets"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}
