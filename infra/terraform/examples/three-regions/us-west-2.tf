# Everything of us-west-2.

module "key_west" {
  source    = "../../modules/key"
  providers = { aws = aws.west }

  name       = "${var.name}-us-west-2"
  account_id = local.account
  region     = "us-west-2"
}

module "network_west" {
  source    = "../../modules/network"
  providers = { aws = aws.west }

  name            = "${var.name}-us-west-2"
  region          = "us-west-2"
  cidr            = local.cidrs["us-west-2"]
  zones           = ["us-west-2a", "us-west-2b", "us-west-2c"]
  internet_egress = var.internet_egress
  kms_key_arn     = module.key_west.arn
  # Their collectors write to the workspace here.
  endpoint_clients = { for region, cidr in local.cidrs : region => cidr if region != "us-west-2" }
}

module "notifications_west" {
  source    = "../../modules/notifications"
  providers = { aws = aws.west }

  name        = "${var.name}-us-west-2"
  region      = "us-west-2"
  account_id  = local.account
  kms_key_arn = module.key_west.arn
  targets     = local.notification_targets["us-west-2"]
}

module "observability_west" {
  source    = "../../modules/observability"
  providers = { aws = aws.west }
  count     = var.images.collector == null ? 0 : 1

  name        = "${var.name}-us-west-2"
  region      = "us-west-2"
  account_id  = local.account
  kms_key_arn = module.key_west.arn
  topic_arn   = module.notifications_west.topic_arn
  endpoint    = module.network_west.metrics_endpoint
  remote_vpc_ids = {
    us-east-1 = module.network_east.vpc_id
    eu-west-1 = module.network_europe.vpc_id
  }
  rules   = local.rules
  grafana = var.grafana
}

module "store_west" {
  source    = "../../modules/store-rds-postgres"
  providers = { aws = aws.west }

  name                      = "${var.name}-us-west-2"
  region                    = "us-west-2"
  role                      = "replica"
  replicate_source_arn      = module.store_east.arn
  vpc_id                    = module.network_west.vpc_id
  subnet_ids                = values(module.network_west.data_subnet_ids)
  client_security_group_ids = { us-west-2 = module.service_west.security_group_ids.slots }
  client_cidrs              = { for region, ranges in local.ranges : region => ranges.services if region != "us-west-2" }
  kms_key_arn               = module.key_west.arn
  instance_class            = var.database_class
  max_connections           = var.max_connections
  service_sessions          = local.service_sessions
  deletion_protection       = var.protected
  windows                   = { maintenance = "mon:03:00-mon:04:00", backup = "01:00-02:00" }
  alarm_topic_arns          = [module.notifications_west.topic_arn]
}

module "service_west" {
  source    = "../../modules/service"
  providers = { aws = aws.west }

  name          = "${var.name}-us-west-2"
  deployment    = var.name
  region        = "us-west-2"
  topology_json = module.topology.topology_json
  slots         = module.topology.regions["us-west-2"]
  gateway_count = module.topology.gateway_count
  domain        = module.topology.domain
  network = {
    vpc_id                     = module.network_west.vpc_id
    service_subnet_ids         = module.network_west.service_subnet_ids
    ranges                     = module.network_west.ranges
    endpoint_security_group_id = module.network_west.endpoint_security_group_id
    s3_prefix_list_id          = module.network_west.s3_prefix_list_id
  }
  peer_ranges                     = { for region, ranges in local.ranges : region => ranges if region != "us-west-2" }
  database_security_group_ids     = { us-west-2 = module.store_west.security_group_id }
  load_balancer_security_group_id = module.edge_west.security_group_id
  internet_egress                 = var.internet_egress
  images                          = local.images["us-west-2"]
  secret_arns                     = { service = module.secrets.arns["us-west-2"].service, deployment = module.secrets.arns["us-west-2"].deployment, gateways = module.secrets.arns["us-west-2"].gateways, tls = module.secrets.arns["us-west-2"].tls }
  kms_key_arn                     = module.key_west.arn
  exposure_level                  = var.exposure_level
  environment                     = var.environment
  postgres_sessions               = var.postgres_sessions
  metrics_workspaces              = local.metrics_workspaces
  alarm_topic_arns                = [module.notifications_west.topic_arn]
  wait_for_steady_state           = var.wait_for_steady_state
}

# The names of its services, for the other regions.
resource "aws_route53_zone_association" "west_for_east" {
  provider = aws.west

  zone_id    = module.service_west.namespace_zone_id
  vpc_id     = module.network_east.vpc_id
  vpc_region = "us-east-1"
}

resource "aws_route53_zone_association" "west_for_europe" {
  provider = aws.west

  zone_id    = module.service_west.namespace_zone_id
  vpc_id     = module.network_europe.vpc_id
  vpc_region = "eu-west-1"
}

module "certificate_west" {
  source    = "../../modules/certificate"
  providers = { aws = aws.west }

  domain_name = var.domain_name
  zone_id     = var.zone_id
}

module "edge_west" {
  source    = "../../modules/edge"
  providers = { aws = aws.west }

  name                    = "${var.name}-us-west-2"
  region                  = "us-west-2"
  vpc_id                  = module.network_west.vpc_id
  edge_security_group_id  = module.service_west.security_group_ids.edge
  subnet_ids              = values(module.network_west.edge_subnet_ids)
  target_group_arn        = module.service_west.target_group_arn
  target_group_arn_suffix = module.service_west.target_group_arn_suffix
  domain_name             = var.domain_name
  zone_id                 = var.zone_id
  postgres                = var.postgres_domain_name == null ? null : { domain_name = var.postgres_domain_name, target_group_arns = module.service_west.postgres_target_group_arns }
  certificate_arn         = module.certificate_west.arn
  requests_per_address    = var.requests_per_address
  deletion_protection     = var.protected
  alarm_topic_arns        = [module.notifications_west.topic_arn]
}

# Promotes this region's node when an operator starts it (docs/deploy-aws.md).
module "failover_west" {
  source    = "../../modules/failover"
  providers = { aws = aws.west }
  count     = var.failover_approval == null ? 0 : 1

  name              = "${var.name}-us-west-2"
  account_id        = local.account
  region            = "us-west-2"
  node              = module.store_west.node.id
  database          = merge(module.store_west.backup, { identifier = module.store_west.identifier })
  fences            = { for region, fence in local.fences : region => fence if region != "us-west-2" }
  topology_json     = module.topology.topology_json
  slots             = module.topology.regions["us-west-2"]
  network           = { service_subnet_ids = module.network_west.service_subnet_ids }
  security_group_id = module.service_west.security_group_ids.slots
  cluster_name      = module.service_west.cluster_name
  image             = local.images["us-west-2"].service
  secret_arns       = { service = module.secrets.arns["us-west-2"].service, tls = module.secrets.arns["us-west-2"].tls }
  kms_key_arn       = module.key_west.arn
  approval          = var.failover_approval
}
