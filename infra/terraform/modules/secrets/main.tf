# The secrets of a system, created in one region and copied to all others. There are five, divided
# by who may read and write them: tasks never need the master's password.

locals {
  secrets = {
    master     = "Password of the database's master user; read by the set-up of roles only"
    service    = "What gateways and trackers share: PGPASSWORD, HIGHWATER_INTERNAL_SECRET"
    gateways   = "GATEWAY_ROLE_PASSWORDS: passwords of the login roles of API keys, by role, as JSON"
    deployment = "HIGHWATER_DEPLOYMENT_KEYS: schedule of the keys that sign tokens and tag receipts, as JSON"
    # Operators write it before anything else is applied, and again when they renew the certificate
    # (service-certificate.sh). It has no version here: Terraform cannot make a private key without
    # keeping it in its state.
    tls = "TLS between services: HIGHWATER_TLS_CERTIFICATE, HIGHWATER_TLS_KEY, HIGHWATER_TLS_CA"
  }
}

resource "aws_secretsmanager_secret" "this" {
  # checkov:skip=CKV2_AWS_57:Replaced by raising values_version: services read secrets at their start, and the database has to follow.
  for_each = local.secrets

  name                    = "${var.name}/${each.key}"
  description             = each.value
  kms_key_id              = var.kms_key_arn
  recovery_window_in_days = var.recovery_window_days

  dynamic "replica" {
    for_each = var.replica_kms_key_arns
    content {
      region     = replica.key
      kms_key_id = replica.value
    }
  }
}

resource "aws_secretsmanager_secret_version" "master" {
  secret_id                = aws_secretsmanager_secret.this["master"].id
  secret_string_wo         = var.master_password
  secret_string_wo_version = var.values_version
}

resource "aws_secretsmanager_secret_version" "service" {
  secret_id = aws_secretsmanager_secret.this["service"].id
  secret_string_wo = jsonencode({
    PGPASSWORD                = var.service_password
    HIGHWATER_INTERNAL_SECRET = var.internal_secret
  })
  secret_string_wo_version = var.values_version
}

# Operators write it when they make keys. Written here once, so that tasks can start before there is
# any.
resource "aws_secretsmanager_secret_version" "gateways" {
  secret_id                = aws_secretsmanager_secret.this["gateways"].id
  secret_string_wo         = "{}"
  secret_string_wo_version = 1
  # The second label stays when operators write. Versions without one are thrown away some day, and
  # Terraform would then make this one anew: all keys would be without their passwords.
  version_stages = ["AWSCURRENT", "TERRAFORM"]

  lifecycle {
    ignore_changes = [version_stages]
  }
}

# The schedule's first key. Operators append to it; written anew it would make all receipts and
# tokens unknown, so no version raises it.
resource "aws_secretsmanager_secret_version" "deployment" {
  secret_id = aws_secretsmanager_secret.this["deployment"].id
  secret_string_wo = jsonencode([
    { kid = 1, validFrom = "1970-01-01T00:00:00Z", secret = var.deployment_secret },
  ])
  secret_string_wo_version = 1
  version_stages           = ["AWSCURRENT", "TERRAFORM"]

  lifecycle {
    ignore_changes = [version_stages]
  }
}
