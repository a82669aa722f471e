# Grafana, where it is wanted. AWS's provider cannot put dashboards into it, and none that can is
# used here: `make dashboards-put` does, from dashboards/grafana (docs/decisions/0076).

data "aws_iam_policy_document" "grafana_trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["grafana.amazonaws.com"]
    }
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [var.account_id]
    }
    # The star stands for the workspaces of Grafana of this account: the role has to be there before
    # the workspace has its id.
    condition {
      test     = "StringLike"
      variable = "aws:SourceArn"
      values   = ["arn:aws:grafana:${var.region}:${var.account_id}:/workspaces/*"]
    }
  }
}

data "aws_iam_policy_document" "grafana" {
  statement {
    sid       = "Query"
    actions   = ["aps:QueryMetrics", "aps:GetLabels", "aps:GetSeries", "aps:GetMetricMetadata"]
    resources = [aws_prometheus_workspace.this.arn]
  }
}

resource "aws_iam_role" "grafana" {
  count = var.grafana == null ? 0 : 1

  name               = "${var.name}-grafana"
  assume_role_policy = data.aws_iam_policy_document.grafana_trust.json
}

resource "aws_iam_role_policy" "grafana" {
  count = var.grafana == null ? 0 : 1

  name   = "query"
  role   = aws_iam_role.grafana[0].id
  policy = data.aws_iam_policy_document.grafana.json
}

resource "aws_grafana_workspace" "this" {
  count = var.grafana == null ? 0 : 1

  name                     = var.name
  description              = "Dashboards of Highwater"
  account_access_type      = "CURRENT_ACCOUNT"
  authentication_providers = sort(tolist(var.grafana.authentication))
  permission_type          = "CUSTOMER_MANAGED"
  role_arn                 = aws_iam_role.grafana[0].arn
  data_sources             = ["PROMETHEUS"]
  grafana_version          = var.grafana.version
}
