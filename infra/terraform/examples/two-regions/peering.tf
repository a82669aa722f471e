# Every pair of regions.

module "peering_east_west" {
  source    = "../../modules/region-peering"
  providers = { aws.requester = aws.east, aws.accepter = aws.west }

  name = "${var.name}-us-east-1-us-west-2"
  requester = {
    vpc_id                  = module.network_east.vpc_id
    cidr                    = local.cidrs["us-east-1"]
    private_route_table_ids = module.network_east.private_route_table_ids
  }
  accepter = {
    vpc_id                  = module.network_west.vpc_id
    cidr                    = local.cidrs["us-west-2"]
    private_route_table_ids = module.network_west.private_route_table_ids
    region                  = "us-west-2"
  }
}
