output "node" {
  description = "The node as `topology` takes it. RDS names and addresses its replicas as it likes, so every node is asked itself what it has."
  value = {
    id     = var.region
    region = var.region
    # With a standby the node moves between zones by itself, and is in none.
    zone     = var.multi_az ? "multi-az" : "single-az"
    host     = aws_db_instance.this.address
    port     = local.port
    database = var.database
    ask      = true
  }
}

output "arn" {
  description = "ARN of the instance; `replicate_source_arn` of its replicas."
  value       = aws_db_instance.this.arn
}

output "identifier" {
  description = "Identifier of the instance, for `aws rds` commands."
  value       = aws_db_instance.this.identifier
}

output "security_group_id" {
  description = "Group of the node."
  value       = aws_security_group.this.id
}

output "master_username" {
  description = "Name of the master user."
  value       = var.master_username
}

output "backup" {
  description = "How long backups are kept, and when they are made: what a promotion has to say again."
  value       = { retention_days = var.backup_retention_days, window = var.windows.backup }
}
