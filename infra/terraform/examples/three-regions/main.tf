# Highwater in three regions. The first primary is in us-east-1, and each of the other regions has a
# replica that may be promoted. The example only combines the modules. For two regions, delete
# eu-west-1.tf, and from the other files every block whose name contains europe and every other line
# that contains europe or eu-west-1.

locals {
  cidrs = {
    us-east-1 = "10.10.0.0/16"
    us-west-2 = "10.20.0.0/16"
    eu-west-1 = "10.30.0.0/16"
  }
  nearest = {
    us-east-1 = [
      "us-west-2",
      "eu-west-1",
    ]
    us-west-2 = [
      "us-east-1",
      "eu-west-1",
    ]
    eu-west-1 = ["us-east-1", "us-west-2"]
  }
  ranges = {
    us-east-1 = module.network_east.ranges
    us-west-2 = module.network_west.ranges
    eu-west-1 = module.network_europe.ranges
  }
  # Nodes have the ids of their regions.
  fences = {
    us-east-1 = module.network_east.fence
    us-west-2 = module.network_west.fence
    eu-west-1 = module.network_europe.fence
  }
  account = data.aws_caller_identity.this.account_id
  # Recording rules and alerts, which `make gen` writes.
  rules_folder = "${path.module}/../../../../dashboards/prometheus"
  rules        = { for file in fileset(local.rules_folder, "*.yml") : trimsuffix(file, ".yml") => file("${local.rules_folder}/${file}") }
  # Each region pulls from its own registry, to which ECR copies (docs/deploy-aws.md).
  images = {
    for region in keys(local.cidrs) : region => {
      for part, image in var.images : part => image == null ? null : "${local.account}.dkr.ecr.${region}.amazonaws.com/${image}"
    }
  }
  # Two, each with the metrics of all regions: one is left when the other is gone with its region.
  # None without collectors, since the absence of metrics is an alert.
  metrics_workspaces = {
    for region, its in { us-east-1 = module.observability_east, us-west-2 = module.observability_west } : region => its[0].workspace if length(its) > 0
  }
  # Both page the person on call; us-east-1 alone sends what can wait. Each region sends its
  # CloudWatch alarms.
  notification_targets = {
    for region in keys(local.cidrs) : region => {
      for name, target in var.notification_targets : name => {
        protocol   = target.protocol
        endpoint   = target.endpoint
        severities = region == "us-east-1" ? target.severities : setintersection(target.severities, ["page"])
      } if target.protocol != "lambda" || strcontains(target.endpoint, ":${region}:")
    }
  }
  # Every gateway and tracker of every region has sessions with every node.
  service_sessions = sum([
    module.service_east.sessions_per_node,
    module.service_west.sessions_per_node,
    module.service_europe.sessions_per_node,
  ])
}

data "aws_caller_identity" "this" {}

module "topology" {
  source = "../../modules/topology"

  domain = var.private_domain
  ports = merge(
    { gateway = 4600, tracker = 4601 },
    var.postgres_domain_name == null ? {} : { postgres = 4605, postgres_read = 4606 },
  )
  levels = var.levels
  nodes = [
    module.store_east.node,
    module.store_west.node,
    module.store_europe.node,
  ]
  regions = {
    for region, near in local.nearest : region => { nearest = near, gateways = var.gateways, trackers = var.trackers }
  }
}
