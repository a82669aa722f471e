# The key of one region, which encrypts its database, backups, secrets, logs, metrics and
# notifications.

data "aws_iam_policy_document" "this" {
  # checkov:skip=CKV_AWS_109:In the policy of a key the star is this key, which its account has to be able to manage.
  # checkov:skip=CKV_AWS_111:In the policy of a key the star is this key, which its account has to be able to manage.
  # checkov:skip=CKV_AWS_356:In the policy of a key the star is this key; AWS takes no other resource there.
  # The account's administrators, by their own policies.
  statement {
    sid = "Account"
    # No one could ever do with the key what is not allowed here, its deletion included.
    actions = ["kms:*"]
    # In a key's policy the star is this key.
    resources = ["*"]
    principals {
      type        = "AWS"
      identifiers = ["arn:aws:iam::${var.account_id}:root"]
    }
  }

  # CloudWatch Logs, for the groups of this system only.
  statement {
    sid     = "Logs"
    actions = ["kms:Encrypt", "kms:Decrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo", "kms:GenerateDataKey", "kms:GenerateDataKeyWithoutPlaintext", "kms:DescribeKey"]
    # This key.
    resources = ["*"]
    principals {
      type        = "Service"
      identifiers = ["logs.${var.region}.amazonaws.com"]
    }
    condition {
      test     = "ArnLike"
      variable = "kms:EncryptionContext:aws:logs:arn"
      values   = ["arn:aws:logs:${var.region}:${var.account_id}:log-group:/${var.name}/*"]
    }
  }

  # Alarms of this account, which send to encrypted topics.
  statement {
    sid     = "Alarms"
    actions = ["kms:Decrypt", "kms:GenerateDataKey"]
    # This key.
    resources = ["*"]
    principals {
      type        = "Service"
      identifiers = ["cloudwatch.amazonaws.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [var.account_id]
    }
  }

  # Prometheus, whose alerts go to encrypted topics. Without a condition, as its documentation has
  # it: whether its requests carry the account is written nowhere, and an alert that cannot be
  # encrypted is lost. It may do nothing but that.
  statement {
    sid     = "Alerts"
    actions = ["kms:Decrypt", "kms:GenerateDataKey"]
    # In the policy of a key, that is the key.
    resources = ["*"]
    principals {
      type        = "Service"
      identifiers = ["aps.amazonaws.com"]
    }
  }
}

resource "aws_kms_key" "this" {
  description             = "Highwater: everything of ${var.name}"
  enable_key_rotation     = true
  deletion_window_in_days = var.deletion_window_days
  policy                  = data.aws_iam_policy_document.this.json
  tags                    = { Name = var.name }
}

resource "aws_kms_alias" "this" {
  name          = "alias/${var.name}"
  target_key_id = aws_kms_key.this.key_id
}
