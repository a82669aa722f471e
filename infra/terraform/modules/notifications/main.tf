# The recipients of one region's alarms and alerts: a topic, to which CloudWatch's alarms and the
# metrics workspace's alerts are sent, and its subscribers. Each region has a topic of its own,
# because alarms cannot send to another region's, and a topic elsewhere may fail with its region.

resource "aws_sns_topic" "this" {
  name              = "${var.name}-notifications"
  display_name      = "Highwater ${var.region}"
  kms_master_key_id = var.kms_key_arn
}

data "aws_iam_policy_document" "topic" {
  statement {
    sid       = "Alarms"
    actions   = ["sns:Publish"]
    resources = [aws_sns_topic.this.arn]
    principals {
      type        = "Service"
      identifiers = ["cloudwatch.amazonaws.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [var.account_id]
    }
    # The star stands for the alarms of this system: all their names begin with its own.
    condition {
      test     = "ArnLike"
      variable = "aws:SourceArn"
      values   = ["arn:aws:cloudwatch:${var.region}:${var.account_id}:alarm:${var.name}-*"]
    }
  }

  statement {
    sid       = "Alerts"
    actions   = ["sns:Publish", "sns:GetTopicAttributes"]
    resources = [aws_sns_topic.this.arn]
    principals {
      type        = "Service"
      identifiers = ["aps.amazonaws.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [var.account_id]
    }
    # The star stands for the workspaces of this account: their ids are AWS's choice.
    condition {
      test     = "ArnLike"
      variable = "aws:SourceArn"
      values   = ["arn:aws:aps:${var.region}:${var.account_id}:workspace/*"]
    }
  }
}

resource "aws_sns_topic_policy" "this" {
  arn    = aws_sns_topic.this.arn
  policy = data.aws_iam_policy_document.topic.json
}

resource "aws_sns_topic_subscription" "this" {
  for_each = var.targets

  topic_arn           = aws_sns_topic.this.arn
  protocol            = each.value.protocol
  endpoint            = each.value.endpoint
  filter_policy_scope = "MessageAttributes"
  # Alarms of CloudWatch have no severity, and everybody gets them.
  filter_policy = jsonencode({ severity = concat(sort(tolist(each.value.severities)), [{ exists = false }]) })
}

resource "aws_lambda_permission" "this" {
  for_each = { for name, target in var.targets : name => target.endpoint if target.protocol == "lambda" }

  statement_id  = "${var.name}-${each.key}"
  function_name = each.value
  action        = "lambda:InvokeFunction"
  principal     = "sns.amazonaws.com"
  source_arn    = aws_sns_topic.this.arn
}
