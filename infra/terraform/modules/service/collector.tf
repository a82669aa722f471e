# The OpenTelemetry collector beside each gateway and tracker: all metrics to the workspaces, the
# one that scaling needs to CloudWatch, and traces to X-Ray. Its configuration is worked out in
# `collector`.

resource "aws_cloudwatch_log_group" "metrics" {
  # checkov:skip=CKV_AWS_338:Metrics on their way into CloudWatch, which keeps them itself. Logs are kept for log_retention_days.
  name              = "/${var.name}/metrics"
  retention_in_days = 30
  kms_key_id        = var.kms_key_arn
}

module "collector" {
  source = "../collector"

  region         = var.region
  system         = var.name
  slots          = { for name, slot in local.slots : name => { kind = slot.kind, port = slot.port } }
  workspaces     = { for region, workspace in var.metrics_workspaces : region => { remote_write_url = workspace.remote_write_url } }
  log_group_name = aws_cloudwatch_log_group.metrics.name
}

locals {
  # Traces go nowhere unless somebody takes them.
  telemetry_environment = { for name, value in module.collector.environment : name => value if var.images.collector != null }

  collectors = {
    for name, slot in local.slots : name => merge(local.confined, {
      name      = "collector"
      image     = var.images.collector
      essential = false
      # A service commits without it, but no one sees what the service does.
      restartPolicy    = { enabled = true }
      memory           = 512
      environment      = [{ name = "AOT_CONFIG_CONTENT", value = module.collector.configurations[name] }]
      logConfiguration = local.logging[slot.kind]
      # It goes on until the service has ended, so that the last data is sent.
      dependsOn   = [{ containerName = slot.kind, condition = "START" }]
      stopTimeout = 120
    }) if var.images.collector != null
  }
}
