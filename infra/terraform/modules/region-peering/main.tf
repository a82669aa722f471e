# A peering between the VPCs of two regions, with routes in the private subnets of both. AWS
# encrypts traffic between regions over a peering, and never sends it over the internet. n regions
# need n(n-1)/2 peerings; from about six regions on, a transit gateway is less work
# (docs/decisions/0073).

resource "aws_vpc_peering_connection" "this" {
  provider = aws.requester

  vpc_id      = var.requester.vpc_id
  peer_vpc_id = var.accepter.vpc_id
  peer_region = var.accepter.region
  tags        = { Name = var.name }
}

resource "aws_vpc_peering_connection_accepter" "this" {
  provider = aws.accepter

  vpc_peering_connection_id = aws_vpc_peering_connection.this.id
  auto_accept               = true
  tags                      = { Name = var.name }
}

resource "aws_route" "to_accepter" {
  provider = aws.requester
  for_each = var.requester.private_route_table_ids

  route_table_id            = each.value
  destination_cidr_block    = var.accepter.cidr
  vpc_peering_connection_id = aws_vpc_peering_connection_accepter.this.id
}

resource "aws_route" "to_requester" {
  provider = aws.accepter
  for_each = var.accepter.private_route_table_ids

  route_table_id            = each.value
  destination_cidr_block    = var.requester.cidr
  vpc_peering_connection_id = aws_vpc_peering_connection_accepter.this.id
}
