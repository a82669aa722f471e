# The automation may do what its steps do; a test compares the two. The person who starts it needs
# ssm:StartAutomationExecution on the document and iam:PassRole on this role; the person who
# approves, ssm:SendAutomationSignal.

data "aws_iam_policy_document" "automation_trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ssm.amazonaws.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [var.account_id]
    }
  }
}

data "aws_iam_policy_document" "automation" {
  statement {
    sid     = "StartTasks"
    actions = ["ecs:RunTask"]
    # The star stands for the revisions of this one definition.
    resources = ["arn:aws:ecs:${var.region}:${var.account_id}:task-definition/${aws_ecs_task_definition.this.family}:*"]
    condition {
      test     = "ArnEquals"
      variable = "ecs:cluster"
      values   = ["arn:aws:ecs:${var.region}:${var.account_id}:cluster/${var.cluster_name}"]
    }
  }

  statement {
    sid       = "GiveTasksTheirRole"
    actions   = ["iam:PassRole"]
    resources = [aws_iam_role.start.arn]
    condition {
      test     = "StringEquals"
      variable = "iam:PassedToService"
      values   = ["ecs-tasks.amazonaws.com"]
    }
  }

  statement {
    sid     = "WatchTasks"
    actions = ["ecs:DescribeTasks"]
    # Tasks of the cluster: their names are made when they start.
    resources = ["arn:aws:ecs:${var.region}:${var.account_id}:task/${var.cluster_name}/*"]
  }

  statement {
    sid     = "ReadTheirLog"
    actions = ["logs:FilterLogEvents"]
    # The star stands for the streams of this one group.
    resources = ["${aws_cloudwatch_log_group.this.arn}:*"]
  }

  statement {
    sid       = "Promote"
    actions   = ["rds:DescribeDBInstances", "rds:PromoteReadReplica"]
    resources = ["arn:aws:rds:${var.region}:${var.account_id}:db:${var.database.identifier}"]
  }

  statement {
    sid     = "SeeFences"
    actions = ["ec2:DescribeNetworkAcls"]
    # AWS takes no resource here.
    resources = ["*"]
  }

  statement {
    sid     = "Fence"
    actions = ["ec2:ReplaceNetworkAclAssociation"]
    # The subnets of databases, and ACLs of their regions: the one that a subnet has at the time
    # cannot be named beforehand, and a fence must not fail by its policy.
    resources = flatten([
      for fence in values(var.fences) : concat(
        ["arn:aws:ec2:${fence.region}:${var.account_id}:network-acl/*"],
        [for subnet in fence.subnet_ids : "arn:aws:ec2:${fence.region}:${var.account_id}:subnet/${subnet}"],
      )
    ])
  }

  statement {
    sid       = "AskForApproval"
    actions   = ["sns:Publish"]
    resources = [aws_sns_topic.approval.arn]
  }

  statement {
    sid       = "EncryptTheQuestion"
    actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
    resources = [var.kms_key_arn]
    condition {
      test     = "StringEquals"
      variable = "kms:ViaService"
      values   = ["sns.${var.region}.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "automation" {
  name               = local.title
  assume_role_policy = data.aws_iam_policy_document.automation_trust.json
}

resource "aws_iam_role_policy" "automation" {
  name   = "failover"
  role   = aws_iam_role.automation.id
  policy = data.aws_iam_policy_document.automation.json
}

# What starts the tasks. In them nothing has any right at AWS: there is no role for that.
data "aws_iam_policy_document" "start_trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ecs-tasks.amazonaws.com"]
    }
  }
}

locals {
  # Of an image in ECR; another registry needs no rights of AWS.
  repository = try(regex("^[0-9]{12}\\.dkr\\.ecr\\.[a-z0-9-]+\\.amazonaws\\.com/([^@]+)@", var.image)[0], null)
}

data "aws_iam_policy_document" "start" {
  statement {
    sid     = "Registry"
    actions = ["ecr:GetAuthorizationToken"]
    # A token is of the whole registry; AWS takes no other resource here.
    resources = ["*"]
  }

  dynamic "statement" {
    for_each = local.repository == null ? [] : [local.repository]
    content {
      sid       = "Image"
      actions   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
      resources = ["arn:aws:ecr:${var.region}:${split(".", var.image)[0]}:repository/${statement.value}"]
    }
  }

  statement {
    sid     = "Log"
    actions = ["logs:CreateLogStream", "logs:PutLogEvents"]
    # The star stands for the streams of this one group.
    resources = ["${aws_cloudwatch_log_group.this.arn}:*"]
  }

  statement {
    sid       = "Secret"
    actions   = ["secretsmanager:GetSecretValue"]
    resources = values(var.secret_arns)
  }

  statement {
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

resource "aws_iam_role" "start" {
  name               = "${local.title}-start"
  assume_role_policy = data.aws_iam_policy_document.start_trust.json
}

resource "aws_iam_role_policy" "start" {
  name   = "start"
  role   = aws_iam_role.start.id
  policy = data.aws_iam_policy_document.start.json
}
