# The VPC of one region over three zones, with three tiers of subnets: `edge` (only the load
# balancer), `service` (tasks) and `data` (databases, without any way to the internet). The module
# `region-peering` connects regions.

locals {
  zones = { for index, zone in var.zones : zone => index }
  # A sixteenth each: three for each tier leave room for more. A quarter is one tier's (`ranges`).
  tiers = { edge = 0, service = 4, data = 8 }
  subnets = {
    for pair in setproduct(keys(local.tiers), var.zones) : "${pair[0]}/${pair[1]}" => {
      tier = pair[0]
      zone = pair[1]
      cidr = cidrsubnet(var.cidr, 4, local.tiers[pair[0]] + local.zones[pair[1]])
    }
  }
  # What tasks call: their images, secrets, keys and logs, the metrics workspace, and traces.
  endpoints = toset(["ecr.api", "ecr.dkr", "secretsmanager", "kms", "logs", "monitoring", "aps-workspaces", "xray"])
}

resource "aws_vpc" "this" {
  cidr_block           = var.cidr
  enable_dns_support   = true
  enable_dns_hostnames = true
  tags                 = { Name = var.name }
}

# AWS makes it, and it would let everybody in it talk to each other: emptied, so that nothing works
# by forgetting a group.
resource "aws_default_security_group" "this" {
  vpc_id  = aws_vpc.this.id
  ingress = []
  egress  = []
  tags    = { Name = "${var.name}-nothing" }
}

resource "aws_subnet" "this" {
  for_each = local.subnets

  vpc_id            = aws_vpc.this.id
  availability_zone = each.value.zone
  cidr_block        = each.value.cidr
  # The load balancer's addresses are its own; nothing that is started here gets one by itself.
  map_public_ip_on_launch = false
  tags                    = { Name = "${var.name}-${each.value.tier}-${each.value.zone}" }
}

resource "aws_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = var.name }
}

resource "aws_route_table" "edge" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name}-edge" }
}

resource "aws_route" "edge_out" {
  route_table_id         = aws_route_table.edge.id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this.id
}

resource "aws_route_table" "service" {
  for_each = local.zones

  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name}-service-${each.key}" }
}

resource "aws_route_table" "data" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name}-data" }
}

resource "aws_route_table_association" "this" {
  for_each = local.subnets

  subnet_id = aws_subnet.this[each.key].id
  route_table_id = (
    each.value.tier == "edge" ? aws_route_table.edge.id :
    each.value.tier == "data" ? aws_route_table.data.id :
    aws_route_table.service[each.value.zone].id
  )
}

resource "aws_eip" "nat" {
  for_each = var.internet_egress ? local.zones : {}

  domain = "vpc"
  tags   = { Name = "${var.name}-nat-${each.key}" }
}

resource "aws_nat_gateway" "this" {
  for_each = var.internet_egress ? local.zones : {}

  allocation_id = aws_eip.nat[each.key].id
  subnet_id     = aws_subnet.this["edge/${each.key}"].id
  tags          = { Name = "${var.name}-${each.key}" }
  depends_on    = [aws_internet_gateway.this]
}

resource "aws_route" "service_out" {
  for_each = var.internet_egress ? local.zones : {}

  route_table_id         = aws_route_table.service[each.key].id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.this[each.key].id
}

# Allows nothing, and is on no subnet: a failover puts it on those of the old primary
# (docs/decisions/0077). It is made now, so that a region that is half dead has as little to do as
# possible then. Which subnets it is on is not Terraform's business.
resource "aws_network_acl" "fence" {
  #checkov:skip=CKV2_AWS_1:It is on no subnet until a failover
  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name}-fence" }
}
