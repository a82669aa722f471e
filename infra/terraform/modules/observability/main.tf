# A workspace for the metrics of the whole system, with the recording rules and alerts that the
# caller gives. It sends alerts to the region's topic. Optionally it has a Grafana (grafana.tf).

locals {
  # How soon a first notification is sent, how soon one of more alerts of a group, and how often
  # again. `info`: once.
  urgencies = {
    page   = { group_wait = "10s", group_interval = "1m", repeat_interval = "1h" }
    ticket = { group_wait = "1m", group_interval = "10m", repeat_interval = "1d" }
    info   = { group_wait = "1m", group_interval = "10m", repeat_interval = "7d" }
  }
}

resource "aws_cloudwatch_log_group" "this" {
  name              = "/${var.name}/prometheus"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
}

resource "aws_prometheus_workspace" "this" {
  alias       = var.name
  kms_key_arn = var.kms_key_arn

  # What goes wrong with rules and notifications; queries are not logged.
  logging_configuration {
    log_group_arn = "${aws_cloudwatch_log_group.this.arn}:*"
  }
}

resource "aws_prometheus_rule_group_namespace" "this" {
  for_each = var.rules

  name         = each.key
  workspace_id = aws_prometheus_workspace.this.id
  data         = each.value
}

# Everything goes to the topic, with its severity as an attribute; who gets what is the
# subscriptions' business (`notifications`).
resource "aws_prometheus_alert_manager_definition" "this" {
  workspace_id = aws_prometheus_workspace.this.id

  definition = yamlencode({
    alertmanager_config = yamlencode({
      route = merge(local.urgencies.ticket, {
        # An alert without a severity is our mistake, so it is sent.
        receiver = "ticket"
        group_by = ["alertname", "severity"]
        routes   = [for severity, urgency in local.urgencies : merge(urgency, { receiver = severity, match = { severity = severity } })]
      })
      receivers = [for severity in keys(local.urgencies) : {
        name = severity
        sns_configs = [{
          topic_arn     = var.topic_arn
          sigv4         = { region = var.region }
          send_resolved = severity != "info"
          attributes    = { severity = severity }
          # At most 100 characters of ASCII.
          subject = "{{ .Status }}: {{ .CommonLabels.alertname }} (${var.name})"
          message = <<-END
            {{ range .Alerts }}{{ .Status }}: {{ .Annotations.summary }}
            {{ .Annotations.description }}
            Runbook: {{ .Annotations.runbook_url }}
            Since {{ .StartsAt }}, reported by ${var.name}

            {{ end }}
          END
        }]
      }]
    })
  })
}
