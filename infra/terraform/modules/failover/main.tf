# A runbook (docs/decisions/0077) for the failover to this region's node, which a person starts and
# approves: nothing starts it by itself. The module creates what it needs in this region: a task of
# the service image, a role for the automation, and a topic that asks for approval. In other regions
# the automation may do one thing: cut off the old primary's database.

locals {
  container = "failover"
  # That of a role and of a document: the region's name is in it.
  title = "${var.name}-failover"
}

resource "aws_cloudwatch_log_group" "this" {
  name              = "/${var.name}/failover"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
}

resource "aws_ecs_task_definition" "this" {
  family                   = local.title
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = 512
  memory                   = 1024
  execution_role_arn       = aws_iam_role.start.arn

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture
  }

  container_definitions = jsonencode([{
    name  = local.container
    image = var.image
    # The automation names the program; run by itself it only previews.
    command                = ["node", "services/durability-tracker/src/cli/failover-candidate/main.ts", "--list", "20"]
    user                   = "1000"
    essential              = true
    readonlyRootFilesystem = true
    privileged             = false
    linuxParameters        = { initProcessEnabled = true, capabilities = { drop = ["ALL"] } }
    environment = [
      { name = "HIGHWATER_AUTHORITY", value = "operator" },
      { name = "HIGHWATER_TOPOLOGY", value = var.topology_json },
      { name = "HIGHWATER_TRACKERS", value = join(",", var.slots.tracker_urls) },
      { name = "NODE_EXTRA_CA_CERTS", value = "/etc/highwater/rds-authorities.pem" },
    ]
    # The services' role of the database, which owns Highwater's tables; what trackers know services
    # by; and the authority of the certificates that trackers and gateways show.
    secrets = [
      for name, arn in {
        HIGHWATER_INTERNAL_SECRET = var.secret_arns.service
        HIGHWATER_TLS_CA          = var.secret_arns.tls
        PGPASSWORD                = var.secret_arns.service
      } : { name = name, valueFrom = "${arn}:${name}::" }
    ]
    logConfiguration = {
      logDriver = "awslogs"
      options = {
        "awslogs-group"         = aws_cloudwatch_log_group.this.name
        "awslogs-region"        = var.region
        "awslogs-stream-prefix" = local.container
        # What it prints is what the automation goes on with.
        "mode" = "blocking"
      }
    }
  }])
}

resource "aws_sns_topic" "approval" {
  name              = "${local.title}-approval"
  kms_master_key_id = var.kms_key_arn
}

resource "aws_sns_topic_subscription" "approval" {
  for_each = var.approval.emails

  topic_arn = aws_sns_topic.approval.arn
  protocol  = "email"
  endpoint  = each.value
}

module "document" {
  source = "./document"

  name     = var.name
  node     = var.node
  role_arn = aws_iam_role.automation.arn
  task = {
    cluster           = var.cluster_name
    definition        = aws_ecs_task_definition.this.family
    container         = local.container
    subnet_ids        = values(var.network.service_subnet_ids)
    security_group_id = var.security_group_id
    log_group         = aws_cloudwatch_log_group.this.name
  }
  database     = var.database
  fences       = var.fences
  gateway_urls = [for slot in var.slots.gateways : "https://${slot.address}:${slot.port}" if slot.burst == 0]
  approval = {
    topic_arn = aws_sns_topic.approval.arn
    approvers = sort(var.approval.approvers)
    minimum   = var.approval.minimum
    hours     = var.approval.hours
  }
}

resource "aws_ssm_document" "this" {
  name            = local.title
  document_type   = "Automation"
  document_format = "JSON"
  content         = module.document.json
}
