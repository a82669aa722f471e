# Two kinds of roles. The execution role may pull the task's image, read the secrets of its kind and
# write its log. The task role may send metrics and traces, and nothing else: the services call
# nothing of AWS.

data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ecs-tasks.amazonaws.com"]
    }
  }
}

locals {
  repositories = toset([
    for image in compact(values(var.images)) :
    "arn:aws:ecr:${var.region}:${split(".", image)[0]}:repository/${split("@", join("/", slice(split("/", image), 1, length(split("/", image)))))[0]}"
    if can(regex("^[0-9]{12}\\.dkr\\.ecr\\.", image))
  ])
  readable = merge(
    {
      gateway = [var.secret_arns.service, var.secret_arns.deployment, var.secret_arns.gateways, var.secret_arns.tls]
      tracker = [var.secret_arns.service, var.secret_arns.deployment, var.secret_arns.tls]
      edge    = [var.secret_arns.tls]
    },
    var.setup == null ? {} : { setup = [var.secret_arns.service, var.secret_arns.gateways, var.setup.master_secret_arn] },
  )
}

data "aws_iam_policy_document" "execution" {
  for_each = local.readable

  statement {
    sid     = "Registry"
    actions = ["ecr:GetAuthorizationToken"]
    # A token is of the whole registry; AWS takes no other resource here.
    resources = ["*"]
  }

  dynamic "statement" {
    for_each = length(local.repositories) > 0 ? [1] : []
    content {
      sid       = "Images"
      actions   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
      resources = local.repositories
    }
  }

  statement {
    sid     = "Logs"
    actions = ["logs:CreateLogStream", "logs:PutLogEvents"]
    # The star stands for the streams of this one group.
    resources = ["${aws_cloudwatch_log_group.this[each.key].arn}:*"]
  }

  dynamic "statement" {
    for_each = length(each.value) > 0 ? [1] : []
    content {
      sid       = "Secrets"
      actions   = ["secretsmanager:GetSecretValue"]
      resources = each.value
    }
  }

  dynamic "statement" {
    for_each = length(each.value) > 0 ? [1] : []
    content {
      sid       = "Key"
      actions   = ["kms:Decrypt"]
      resources = [var.kms_key_arn]
      condition {
        test     = "StringEquals"
        variable = "kms:ViaService"
        values   = ["secretsmanager.${var.region}.amazonaws.com"]
      }
    }
  }
}

resource "aws_iam_role" "execution" {
  for_each = local.readable

  name               = "${var.name}-${each.key}-start"
  assume_role_policy = data.aws_iam_policy_document.trust.json
}

resource "aws_iam_role_policy" "execution" {
  for_each = local.readable

  name   = "start"
  role   = aws_iam_role.execution[each.key].id
  policy = data.aws_iam_policy_document.execution[each.key].json
}

data "aws_iam_policy_document" "task" {
  dynamic "statement" {
    for_each = length(var.metrics_workspaces) == 0 ? [] : [values(var.metrics_workspaces)[*].arn]
    content {
      sid       = "Metrics"
      actions   = ["aps:RemoteWrite"]
      resources = statement.value
    }
  }

  statement {
    sid     = "ScalingMetrics"
    actions = ["logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"]
    # The streams of this one group.
    resources = ["${aws_cloudwatch_log_group.metrics.arn}:*"]
  }

  statement {
    sid     = "Traces"
    actions = ["xray:PutTraceSegments", "xray:PutTelemetryRecords", "xray:GetSamplingRules", "xray:GetSamplingTargets"]
    # X-Ray has no resources to name.
    resources = ["*"]
  }
}

resource "aws_iam_role" "task" {
  name               = "${var.name}-task"
  assume_role_policy = data.aws_iam_policy_document.trust.json
}

resource "aws_iam_role_policy" "task" {
  name   = "telemetry"
  role   = aws_iam_role.task.id
  policy = data.aws_iam_policy_document.task.json
}
