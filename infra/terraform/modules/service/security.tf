# Who may talk to whom. Everything else is refused, the way out included.

locals {
  # Services of this and of the other regions: gateways announce to every tracker, edges turn to other regions' services.
  friends = merge({ (var.region) = var.network.cidr }, var.peer_cidrs)
  ports   = toset([for slot in values(local.slots) : tostring(slot.port)])
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
  for_each = { for pair in setproduct(keys(local.friends), local.ports) : "${pair[0]}/${pair[1]}" => { region = pair[0], port = tonumber(pair[1]) } }

  security_group_id = aws_security_group.slots.id
  description       = "Edges and services of ${each.value.region}"
  cidr_ipv4         = local.friends[each.value.region]
  ip_protocol       = "tcp"
  from_port         = each.value.port
  to_port           = each.value.port
}

resource "aws_vpc_security_group_egress_rule" "slots" {
  for_each = { for pair in setproduct(keys(local.friends), setunion(local.ports, ["5432"])) : "${pair[0]}/${pair[1]}" => { region = pair[0], port = tonumber(pair[1]) } }

  security_group_id = aws_security_group.slots.id
  description       = "Services and databases of ${each.value.region}"
  cidr_ipv4         = local.friends[each.value.region]
  ip_protocol       = "tcp"
  from_port         = each.value.port
  to_port           = each.value.port
}

# The load balancer's own group is `edge`'s. It lives in this VPC, and only there.
resource "aws_vpc_security_group_ingress_rule" "edge" {
  for_each = { requests = local.edge_port, health = local.operators_port }

  security_group_id = aws_security_group.edge.id
  description       = "The load balancer: ${each.key}"
  cidr_ipv4         = var.network.cidr
  ip_protocol       = "tcp"
  from_port         = each.value
  to_port           = each.value
}

resource "aws_vpc_security_group_egress_rule" "edge" {
  for_each = { for pair in setproduct(keys(local.friends), local.ports) : "${pair[0]}/${pair[1]}" => { region = pair[0], port = tonumber(pair[1]) } }

  security_group_id = aws_security_group.edge.id
  description       = "Services of ${each.value.region}"
  cidr_ipv4         = local.friends[each.value.region]
  ip_protocol       = "tcp"
  from_port         = each.value.port
  to_port           = each.value.port
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
  for_each = { for region, cidr in var.peer_cidrs : region => cidr if contains(keys(var.metrics_workspaces), region) }

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

# Webhooks go to addresses that nobody knows beforehand; the tracker itself refuses private ones.
resource "aws_vpc_security_group_egress_rule" "internet" {
  count = var.internet_egress ? 1 : 0

  security_group_id = aws_security_group.slots.id
  description       = "Webhooks and key sets"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}
