# The task that makes the roles of the database (infra/image/src/database-roles.ts). Nothing starts
# it by itself: an operator runs it once, and again for a role of an API key or when a password is
# replaced (docs/deploy-aws.md). It alone may read the master's password: a person who may start it
# with another command has the master's rights.

resource "aws_ecs_task_definition" "setup" {
  count = var.setup == null ? 0 : 1

  family                   = "${var.name}-setup"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = 256
  memory                   = 512
  execution_role_arn       = aws_iam_role.execution["setup"].arn

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture
  }

  container_definitions = jsonencode([
    merge(local.confined, {
      name    = "setup"
      image   = var.images.service
      command = ["node", "infra/image/src/database-roles.ts"]
      user    = "1000"
      environment = [
        { name = "DATABASE_ROLES_SERVICE", value = regex("://([^@]+)@", jsondecode(var.topology_json).nodes[0].url)[0] },
        { name = "DATABASE_ROLES_URL", value = var.setup.url },
        { name = "NODE_EXTRA_CA_CERTS", value = local.shared_environment.NODE_EXTRA_CA_CERTS },
      ]
      secrets = [
        { name = "DATABASE_ROLES_APPLICATIONS", valueFrom = var.secret_arns.gateways },
        { name = "DATABASE_ROLES_PASSWORD", valueFrom = "${var.secret_arns.service}:PGPASSWORD::" },
        { name = "PGPASSWORD", valueFrom = var.setup.master_secret_arn },
      ]
      logConfiguration = local.logging.setup
    }),
  ])
}
