# moto looks for the subnet group of a replica in the region of its source, and forgets that an
# instance is to be watched.
resource "aws_db_instance" "this" {
  db_subnet_group_name = local.is_primary ? aws_db_subnet_group.this.name : null
  # The provider sets it by a call of its own, and waits for each of them for over a minute,
  # whatever moto says.
  ca_cert_identifier = local.is_primary ? null : "rds-ca-rsa2048-g1"

  lifecycle {
    ignore_changes = [
      allocated_storage, monitoring_interval, monitoring_role_arn,
      performance_insights_enabled, performance_insights_kms_key_id, performance_insights_retention_period,
    ]
  }
}
# moto does not say whose a parameter is, and the provider then takes it for the engine's.
resource "aws_db_parameter_group" "this" {
  lifecycle { ignore_changes = [parameter] }
}
# moto forgets the description of a rule that names a security group.
resource "aws_vpc_security_group_ingress_rule" "services" {
  lifecycle { ignore_changes = [description] }
}
