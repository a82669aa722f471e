# Everything of eu-west-1.

module "key_europe" {
  source    = "../../modules/key"
  providers = { aws = aws.europe }

  name       = "${var.name}-eu-west-1"
  account_id = local.account
  region     = "eu-west-1"
}

module "network_europe" {
  source    = "../../modules/network"
  providers = { aws = aws.europe }

  name            = "${var.name}-eu-west-1"
  region          = "eu-west-1"
  cidr            = local.cidrs["eu-west-1"]
  zones           = ["eu-west-1a", "eu-west-1b", "eu-west-1c"]
  internet_egress = var.internet_egress
  kms_key_arn     = module.key_europe.arn
}

module "notifications_europe" {
  source    = "../../modules/notifications"
  providers = { aws = aws.europe }

  name        = "${var.name}-eu-west-1"
  region      = "eu-west-1"
  account_id  = local.account
  kms_key_arn = module.key_europe.arn
  targets     = local.notification_targets["eu-west-1"]
}

module "store_europe" {
  source    = "../../modules/store-rds-postgres"
  providers = { aws = aws.europe }

  name                      = "${var.name}-eu-west-1"
  region                    = "eu-west-1"
  role                      = "replica"
  replicate_source_arn      = module.store_east.arn
  vpc_id                    = module.network_europe.vpc_id
  subnet_ids                = values(module.network_europe.data_subnet_ids)
  client_security_group_ids = { eu-west-1 = module.service_europe.security_group_ids.slots }
  client_cidrs              = { for region, ranges in local.ranges : region => ranges.services if region != "eu-west-1" }
  kms_key_arn               = module.key_europe.arn
  instance_class            = var.database_class
  max_connections           = var.max_connections
  service_sessions          = local.service_sessions
  deletion_protection       = var.protected
  windows                   = { maintenance = "tue:03:00-tue:04:00", backup = "01:00-02:00" }
  alarm_topic_arns          = [module.notifications_europe.topic_arn]
}

module "service_europe" {
  source    = "../../modules/service"
  providers = { aws = aws.europe }

  name          = "${var.name}-eu-west-1"
  deployment    = var.name
  region        = "eu-west-1"
  topology_json = module.topology.topology_json
  slots         = module.topology.regions["eu-west-1"]
  gateway_count = module.topology.gateway_count
  domain        = module.topology.domain
  network = {
    vpc_id                     = module.network_europe.vpc_id
    service_subnet_ids         = module.network_europe.service_subnet_ids
    ranges                     = module.network_europe.ranges
    endpoint_security_group_id = module.network_europe.endpoint_security_group_id
    s3_prefix_list_id          = module.network_europe.s3_prefix_list_id
  }
  peer_ranges                     = { for region, ranges in local.ranges : region => ranges if region != "eu-west-1" }
  database_security_group_ids     = { eu-west-1 = module.store_europe.security_group_id }
  load_balancer_security_group_id = module.edge_europe.security_group_id
  internet_egress                 = var.internet_egress
  images                          = local.images["eu-west-1"]
  secret_arns                     = { service = module.secrets.arns["eu-west-1"].service, deployment = module.secrets.arns["eu-west-1"].deployment, gateways = module.secrets.arns["eu-west-1"].gateways, tls = module.secrets.arns["eu-west-1"].tls }
  kms_key_arn                     = module.key_europe.arn
  exposure_level                  = var.exposure_level
  environment                     = var.environment
  postgres_sessions               = var.postgres_sessions
  metrics_workspaces              = local.metrics_workspaces
  alarm_topic_arns                = [module.notifications_europe.topic_arn]
  wait_for_steady_state           = var.wait_for_steady_state
}

# The names of its services, for the other regions.
resource "aws_route53_zone_association" "europe_for_east" {
  provider = aws.europe

  zone_id    = module.service_europe.namespace_zone_id
  vpc_id     = module.network_east.vpc_id
  vpc_region = "us-east-1"
}

resource "aws_route53_zone_association" "europe_for_west" {
  provider = aws.europe

  zone_id    = module.service_europe.namespace_zone_id
  vpc_id     = module.network_west.vpc_id
  vpc_region = "us-west-2"
}

module "certificate_europe" {
  source    = "../../modules/certificate"
  providers = { aws = aws.europe }

  domain_name = var.domain_name
  zone_id     = var.zone_id
}

module "edge_europe" {
  source    = "../../modules/edge"
  providers = { aws = aws.europe }

  name                    = "${var.name}-eu-west-1"
  region                  = "eu-west-1"
  vpc_id                  = module.network_europe.vpc_id
  edge_security_group_id  = module.service_europe.security_group_ids.edge
  subnet_ids              = values(module.network_europe.edge_subnet_ids)
  target_group_arn        = module.service_europe.target_group_arn
  target_group_arn_suffix = module.service_europe.target_group_arn_suffix
  domain_name             = var.domain_name
  zone_id                 = var.zone_id
  postgres                = var.postgres_domain_name == null ? null : { domain_name = var.postgres_domain_name, target_group_arns = module.service_europe.postgres_target_group_arns }
  certificate_arn         = module.certificate_europe.arn
  requests_per_address    = var.requests_per_address
  deletion_protection     = var.protected
  alarm_topic_arns        = [module.notifications_europe.topic_arn]
}

# Promotes this region's node when an operator starts it (docs/deploy-aws.md).
module "failover_europe" {
  source    = "../../modules/failover"
  providers = { aws = aws.europe }
  count     = var.failover_approval == null ? 0 : 1

  name              = "${var.name}-eu-west-1"
  account_id        = local.account
  region            = "eu-west-1"
  node              = module.store_europe.node.id
  database          = merge(module.store_europe.backup, { identifier = module.store_europe.identifier })
  fences            = { for region, fence in local.fences : region => fence if region != "eu-west-1" }
  topology_json     = module.topology.topology_json
  slots             = module.topology.regions["eu-west-1"]
  network           = { service_subnet_ids = module.network_europe.service_subnet_ids }
  security_group_id = module.service_europe.security_group_ids.slots
  cluster_name      = module.service_europe.cluster_name
  image             = local.images["eu-west-1"].service
  secret_arns       = { service = module.secrets.arns["eu-west-1"].service, tls = module.secrets.arns["eu-west-1"].tls }
  kms_key_arn       = module.key_europe.arn
  approval          = var.failover_approval
}
