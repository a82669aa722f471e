output "arns" {
  description = "By region (`home` is the one where they are made) and secret (`master`, `service`, `gateways`, `deployment`, `tls`), the ARN. It is known once Terraform has written its values, so that no task is started before. Operators write `tls` themselves."
  value = merge(
    { home = { for name, secret in aws_secretsmanager_secret.this : name => secret.arn } },
    {
      for region in keys(var.replica_kms_key_arns) : region => {
        # A copy has the same name and the same six characters behind it; only the region differs.
        for name, secret in aws_secretsmanager_secret.this : name => join(":", [
          for index, part in split(":", secret.arn) : index == 3 ? region : part
        ])
      }
    },
  )
  depends_on = [
    aws_secretsmanager_secret_version.master,
    aws_secretsmanager_secret_version.service,
    aws_secretsmanager_secret_version.gateways,
    aws_secretsmanager_secret_version.deployment,
  ]
}

output "master_secret_id" {
  description = "The master's secret once it is written: what reads it then gets what the database will have."
  value       = aws_secretsmanager_secret_version.master.secret_id
}

output "values_version" {
  description = "Version of the values that were written."
  value       = var.values_version
}
