output "workspace" {
  description = "For `metrics_workspaces` of `service`: ARN and remote-write URL."
  value = {
    arn              = aws_prometheus_workspace.this.arn
    remote_write_url = "${aws_prometheus_workspace.this.prometheus_endpoint}api/v1/remote_write"
  }
}

output "query_url" {
  description = "Where the workspace answers queries of Prometheus, signed for `aps`; for a data source of Grafana."
  value       = trimsuffix(aws_prometheus_workspace.this.prometheus_endpoint, "/")
}

output "grafana_workspace_id" {
  description = "Workspace of Grafana; null where there is none."
  value       = var.grafana == null ? null : aws_grafana_workspace.this[0].id
}

output "grafana_url" {
  description = "Where people look at dashboards; null where there is no Grafana."
  value       = var.grafana == null ? null : "https://${aws_grafana_workspace.this[0].endpoint}"
}
