# moto forgets by which key the copies of a secret are encrypted.
resource "aws_secretsmanager_secret" "this" {
  dynamic "replica" {
    for_each = var.replica_kms_key_arns
    content {
      region     = replica.key
      kms_key_id = "alias/aws/secretsmanager"
    }
  }
}
