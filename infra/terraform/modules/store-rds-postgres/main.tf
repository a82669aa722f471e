# One node of the store on RDS: a primary, or a replica of the primary in another region. They
# differ only in their source, because each may have to take the other's part after a failover. The
# module does not decide who is the primary: an operator's command does
# (docs/reference/authority.md), and RDS never promotes by itself.

locals {
  # It is made as one. A promoted replica is a primary, too, and keeps the settings that RDS gave
  # it.
  is_primary = var.role == "primary"
  is_replica = var.role == "replica"
  port       = 5432
}

resource "aws_db_subnet_group" "this" {
  name        = var.name
  description = "Private subnets of ${var.name}"
  subnet_ids  = var.subnet_ids
}

resource "aws_security_group" "this" {
  name        = "${var.name}-postgres"
  description = "PostgreSQL from the services of all regions"
  vpc_id      = var.vpc_id
  tags        = { Name = "${var.name}-postgres" }
}

# There is no rule for the way out. RDS replicates over its own network.
resource "aws_vpc_security_group_ingress_rule" "services" {
  for_each = var.client_security_group_ids

  security_group_id            = aws_security_group.this.id
  description                  = "Services of ${each.key}"
  referenced_security_group_id = each.value
  ip_protocol                  = "tcp"
  from_port                    = local.port
  to_port                      = local.port
}

# By range: a group of another region cannot be named.
resource "aws_vpc_security_group_ingress_rule" "postgres" {
  for_each = var.client_cidrs

  security_group_id = aws_security_group.this.id
  description       = "Services of ${each.key}"
  cidr_ipv4         = each.value
  ip_protocol       = "tcp"
  from_port         = local.port
  to_port           = local.port
}

resource "aws_db_instance" "this" {
  # checkov:skip=CKV_AWS_226:An upgrade restarts the node, and a restart begins an epoch: only when somebody wants it.
  # checkov:skip=CKV2_AWS_69:The parameter group sets rds.force_ssl, in a dynamic block that checkov does not see into.
  identifier = var.name

  engine         = local.is_primary ? "postgres" : null
  engine_version = local.is_primary ? var.engine_version : null
  instance_class = var.instance_class
  # An upgrade restarts the node, and a restart begins an epoch: only when somebody wants it.
  auto_minor_version_upgrade = false

  replicate_source_db = var.replicate_source_arn
  db_name             = local.is_primary ? var.database : null
  username            = local.is_primary ? var.master_username : null
  password_wo         = var.master_password
  password_wo_version = var.master_password_version

  storage_type          = "gp3"
  allocated_storage     = local.is_primary ? var.storage.allocated_gib : null
  max_allocated_storage = var.storage.max_gib
  storage_encrypted     = true
  kms_key_id            = var.kms_key_arn

  multi_az               = var.multi_az
  db_subnet_group_name   = aws_db_subnet_group.this.name
  vpc_security_group_ids = [aws_security_group.this.id]
  publicly_accessible    = false
  port                   = local.port
  # Services check the server's certificate; this authority outlives the older ones.
  ca_cert_identifier   = "rds-ca-rsa2048-g1"
  parameter_group_name = aws_db_parameter_group.this.name

  # Services log in with a password from a secret: they keep sessions for long, and hold no AWS
  # credentials that a token needs.
  iam_database_authentication_enabled = false

  backup_retention_period   = var.backup_retention_days
  backup_window             = var.windows.backup
  maintenance_window        = var.windows.maintenance
  copy_tags_to_snapshot     = true
  delete_automated_backups  = false
  deletion_protection       = var.deletion_protection
  skip_final_snapshot       = !var.deletion_protection
  final_snapshot_identifier = var.deletion_protection ? "${var.name}-final" : null

  performance_insights_enabled          = true
  performance_insights_kms_key_id       = var.kms_key_arn
  performance_insights_retention_period = 7
  monitoring_interval                   = 60
  monitoring_role_arn                   = aws_iam_role.monitoring.arn
  enabled_cloudwatch_logs_exports       = ["postgresql", "upgrade"]

  lifecycle {
    # RDS grows it by itself.
    ignore_changes = [allocated_storage]

    precondition {
      condition     = !local.is_replica || var.multi_az || !var.deletion_protection
      error_message = "A replica that may be promoted should have a standby of its own: set multi_az, or drop deletion_protection for a system that is thrown away."
    }
  }
}

data "aws_iam_policy_document" "monitoring_trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["monitoring.rds.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "monitoring" {
  name               = "${var.name}-rds-monitoring"
  assume_role_policy = data.aws_iam_policy_document.monitoring_trust.json
}

resource "aws_iam_role_policy_attachment" "monitoring" {
  role = aws_iam_role.monitoring.name
  # AWS's own, for exactly this: it writes to the one group that RDS has for operating-system
  # metrics.
  policy_arn = "arn:aws:iam::aws:policy/service-role/AmazonRDSEnhancedMonitoringRole"
}
