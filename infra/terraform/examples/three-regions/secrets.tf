# Passwords are made by AWS and written to their secrets in one go; neither plan nor state ever
# holds them. The database reads the master's back from its secret, so that both have the same even
# when an apply breaks off between the two.

ephemeral "aws_secretsmanager_random_password" "this" {
  for_each = toset(["master", "service", "internal", "deployment"])

  password_length     = 40
  exclude_punctuation = true
}

module "secrets" {
  source = "../../modules/secrets"

  name        = var.name
  kms_key_arn = module.key_east.arn
  replica_kms_key_arns = {
    us-west-2 = module.key_west.arn
    eu-west-1 = module.key_europe.arn
  }
  values_version       = var.secrets_version
  master_password      = ephemeral.aws_secretsmanager_random_password.this["master"].random_password
  service_password     = ephemeral.aws_secretsmanager_random_password.this["service"].random_password
  internal_secret      = ephemeral.aws_secretsmanager_random_password.this["internal"].random_password
  deployment_secret    = ephemeral.aws_secretsmanager_random_password.this["deployment"].random_password
  recovery_window_days = var.protected ? 30 : 0
}

ephemeral "aws_secretsmanager_secret_version" "master" {
  secret_id = module.secrets.master_secret_id
}
