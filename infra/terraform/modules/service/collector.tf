# The OpenTelemetry collector beside each service: all metrics to the workspace, the three that scaling needs to CloudWatch,
# and traces to X-Ray. It scrapes what the service serves at /metrics.

resource "aws_cloudwatch_log_group" "metrics" {
  name              = "/${var.name}/metrics"
  retention_in_days = 30
  kms_key_id        = var.kms_key_arn
}

locals {
  metrics_namespace = "Highwater"
  scaling_metrics   = { gateway = "highwater_gateway_pool_queue_length", tracker = "highwater_stream_clients" }

  collector_configuration = {
    for kind in ["gateway", "tracker"] : kind => yamlencode({
      extensions = { sigv4auth = { region = var.region, service = "aps" } }
      receivers = {
        prometheus = {
          config = {
            scrape_configs = [{
              job_name        = "highwater-${kind}"
              scrape_interval = "15s"
              static_configs  = [{ targets = ["127.0.0.1:${(kind == "gateway" ? var.slots.gateways : var.slots.trackers)[0].port}"], labels = { region = var.region } }]
            }]
          }
        }
        # On loopback: only this task's service sends traces here.
        otlp = { protocols = { http = { endpoint = "127.0.0.1:4318" } } }
      }
      processors = {
        batch = {}
        "filter/scaling" = {
          metrics = { include = { match_type = "strict", metric_names = [local.scaling_metrics[kind]] } }
        }
      }
      exporters = merge(
        {
          awsemf = {
            region                  = var.region
            namespace               = local.metrics_namespace
            log_group_name          = aws_cloudwatch_log_group.metrics.name
            log_stream_name         = kind
            dimension_rollup_option = "NoDimensionRollup"
            metric_declarations     = [{ dimensions = [["region"]], metric_name_selectors = [local.scaling_metrics[kind]] }]
          }
          awsxray = { region = var.region }
        },
        var.metrics_workspace == null ? {} : {
          prometheusremotewrite = { endpoint = var.metrics_workspace.remote_write_url, auth = { authenticator = "sigv4auth" } }
        },
      )
      service = {
        extensions = ["sigv4auth"]
        pipelines = merge(
          {
            "metrics/scaling" = { receivers = ["prometheus"], processors = ["filter/scaling", "batch"], exporters = ["awsemf"] }
            traces            = { receivers = ["otlp"], processors = ["batch"], exporters = ["awsxray"] }
          },
          var.metrics_workspace == null ? {} : {
            metrics = { receivers = ["prometheus"], processors = ["batch"], exporters = ["prometheusremotewrite"] }
          },
        )
      }
    })
  }
}
