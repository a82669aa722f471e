# Everything of us-east-1.

module "key_east" {
  source    = "../../modules/key"
  providers = { aws = aws.east }

  name       = "${var.name}-us-east-1"
  account_id = local.account
  region     = "us-east-1"
}

module "network_east" {
  source    = "../../modules/network"
  providers = { aws = aws.east }

  name            = "${var.name}-us-east-1"
  region          = "us-east-1"
  cidr            = local.cidrs["us-east-1"]
  zones           = ["us-east-1a", "us-east-1b", "us-east-1c"]
  internet_egress = var.internet_egress
  kms_key_arn     = module.key_east.arn
  # Their collectors write to the workspace here.
  endpoint_clients = { for region, cidr in local.cidrs : region => cidr if region != "us-east-1" }
}

module "notifications_east" {
  source    = "../../modules/notifications"
  providers = { aws = aws.east }

  name        = "${var.name}-us-east-1"
  region      = "us-east-1"
  account_id  = local.account
  kms_key_arn = module.key_east.arn
  targets     = local.notification_targets["us-east-1"]
}

module "observability_east" {
  source    = "../../modules/observability"
  providers = { aws = aws.east }
  count     = var.images.collector == null ? 0 : 1

  name        = "${var.name}-us-east-1"
  region      = "us-east-1"
  account_id  = local.account
  kms_key_arn = module.key_east.arn
  topic_arn   = module.notifications_east.topic_arn
  endpoint    = module.network_east.metrics_endpoint
  remote_vpc_ids = {
    us-west-2 = module.network_west.vpc_id
    eu-west-1 = module.network_europe.vpc_id
  }
  rules   = local.rules
  grafana = var.grafana
}

module "store_east" {
  source    = "../../modules/store-rds-postgres"
  providers = { aws = aws.east }

  name                      = "${var.name}-us-east-1"
  region                    = "us-east-1"
  role                      = "primary"
  master_password           = ephemeral.aws_secretsmanager_secret_version.master.secret_string
  master_password_version   = module.secrets.values_version
  vpc_id                    = module.network_east.vpc_id
  subnet_ids                = values(module.network_east.data_subnet_ids)
  client_security_group_ids = { us-east-1 = module.service_east.security_group_ids.slots }
  client_cidrs              = { for region, ranges in local.ranges : region => ranges.services if region != "us-east-1" }
  kms_key_arn               = module.key_east.arn
  instance_class            = var.database_class
  max_connections           = var.max_connections
  service_sessions          = local.service_sessions
  deletion_protection       = var.protected
  windows                   = { maintenance = "sun:03:00-sun:04:00", backup = "01:00-02:00" }
  alarm_topic_arns          = [module.notifications_east.topic_arn]
}

module "service_east" {
  source    = "../../modules/service"
  providers = { aws = aws.east }

  name          = "${var.name}-us-east-1"
  deployment    = var.name
  region        = "us-east-1"
  topology_json = module.topology.topology_json
  slots         = module.topology.regions["us-east-1"]
  gateway_count = module.topology.gateway_count
  domain        = module.topology.domain
  network = {
    vpc_id                     = module.network_east.vpc_id
    service_subnet_ids         = module.network_east.service_subnet_ids
    ranges                     = module.network_east.ranges
    endpoint_security_group_id = module.network_east.endpoint_security_group_id
    s3_prefix_list_id          = module.network_east.s3_prefix_list_id
  }
  peer_ranges                     = { for region, ranges in local.ranges : region => ranges if region != "us-east-1" }
  database_security_group_ids     = { us-east-1 = module.store_east.security_group_id }
  load_balancer_security_group_id = module.edge_east.security_group_id
  internet_egress                 = var.internet_egress
  images                          = local.images["us-east-1"]
  secret_arns                     = { service = module.secrets.arns["home"].service, deployment = module.secrets.arns["home"].deployment, gateways = module.secrets.arns["home"].gateways, tls = module.secrets.arns["home"].tls }
  kms_key_arn                     = module.key_east.arn
  exposure_level                  = var.exposure_level
  environment                     = var.environment
  postgres_sessions               = var.postgres_sessions
  metrics_workspaces              = local.metrics_workspaces
  alarm_topic_arns                = [module.notifications_east.topic_arn]
  wait_for_steady_state           = var.wait_for_steady_state
  setup = {
    url               = "postgresql://${module.store_east.master_username}@${module.store_east.node.host}:${module.store_east.node.port}/${module.store_east.node.database}?sslmode=verify-full"
    master_secret_arn = module.secrets.arns["home"].master
  }
}

# The names of its services, for the other regions.
resource "aws_route53_zone_association" "east_for_west" {
  provider = aws.east

  zone_id    = module.service_east.namespace_zone_id
  vpc_id     = module.network_west.vpc_id
  vpc_region = "us-west-2"
}

resource "aws_route53_zone_association" "east_for_europe" {
  provider = aws.east

  zone_id    = module.service_east.namespace_zone_id
  vpc_id     = module.network_europe.vpc_id
  vpc_region = "eu-west-1"
}

module "certificate_east" {
  source    = "../../modules/certificate"
  providers = { aws = aws.east }

  domain_name = var.domain_name
  zone_id     = var.zone_id
}

module "edge_east" {
  source    = "../../modules/edge"
  providers = { aws = aws.east }

  name                    = "${var.name}-us-east-1"
  region                  = "us-east-1"
  vpc_id                  = module.network_east.vpc_id
  edge_security_group_id  = module.service_east.security_group_ids.edge
  subnet_ids              = values(module.network_east.edge_subnet_ids)
  target_group_arn        = module.service_east.target_group_arn
  target_group_arn_suffix = module.service_east.target_group_arn_suffix
  domain_name             = var.domain_name
  zone_id                 = var.zone_id
  postgres                = var.postgres_domain_name == null ? null : { domain_name = var.postgres_domain_name, target_group_arns = module.service_east.postgres_target_group_arns }
  certificate_arn         = module.certificate_east.arn
  requests_per_address    = var.requests_per_address
  deletion_protection     = var.protected
  alarm_topic_arns        = [module.notifications_east.topic_arn]
}

# Promotes this region's node when an operator starts it (docs/deploy-aws.md).
module "failover_east" {
  source    = "../../modules/failover"
  providers = { aws = aws.east }
  count     = var.failover_approval == null ? 0 : 1

  name              = "${var.name}-us-east-1"
  account_id        = local.account
  region            = "us-east-1"
  node              = module.store_east.node.id
  database          = merge(module.store_east.backup, { identifier = module.store_east.identifier })
  fences            = { for region, fence in local.fences : region => fence if region != "us-east-1" }
  topology_json     = module.topology.topology_json
  slots             = module.topology.regions["us-east-1"]
  network           = { service_subnet_ids = module.network_east.service_subnet_ids }
  security_group_id = module.service_east.security_group_ids.slots
  cluster_name      = module.service_east.cluster_name
  image             = local.images["us-east-1"].service
  secret_arns       = { service = module.secrets.arns["home"].service, tls = module.secrets.arns["home"].tls }
  kms_key_arn       = module.key_east.arn
  approval          = var.failover_approval
}
