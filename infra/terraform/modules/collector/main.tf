# The configuration of the OpenTelemetry collector beside each gateway and tracker. It scrapes its
# own service, writes all metrics to the workspaces and the one metric that scaling needs to
# CloudWatch, and sends traces to X-Ray. The module creates no resource: a test plans it, and
# compares the result with the queries of dashboards and rules.

locals {
  namespace       = "Highwater"
  scaling_metrics = { gateway = "highwater_gateway_pool_queue_length", tracker = "highwater_stream_clients" }
  # In CloudWatch: one system is not another one of the same account and region.
  dimensions = { System = var.system }

  # By region, what signs requests to its workspace and what sends them. Each has a queue of its
  # own: a workspace that is gone with its region holds nothing up on the way to the others.
  authenticators = { for region in keys(var.workspaces) : region => "sigv4auth/${region}" }
  writers        = { for region in keys(var.workspaces) : region => "prometheusremotewrite/${region}" }

  configurations = {
    for name, slot in var.slots : name => yamlencode({
      extensions = {
        for region, authenticator in local.authenticators : authenticator => { region = region, service = "aps" }
      }

      receivers = {
        prometheus = {
          config = {
            scrape_configs = [{
              # Alerts select jobs by these names (JOBS in dashboards/src/config.ts).
              job_name        = "highwater-${slot.kind}"
              scrape_interval = "${var.scrape_interval_s}s"
              scheme          = "https"
              # It asks its own task on loopback, for which no certificate is.
              tls_config = { insecure_skip_verify = true }
              static_configs = [{
                targets = ["127.0.0.1:${slot.port}"]
                # Every task's address is the same from inside. No other label: `region` would hide
                # the nodes' own, and which region a service is in, it says itself
                # (highwater_service_info).
                labels = { instance = name }
              }]
            }]
          }
        }
        # On loopback: only this task's service sends traces here.
        otlp = { protocols = { http = { endpoint = "127.0.0.1:${var.traces_port}" } } }
      }

      processors = {
        # What cannot be sent must not take the service's memory.
        memory_limiter = { check_interval = "1s", limit_mib = 256, spike_limit_mib = 64 }
        batch          = {}
        "filter/scaling" = {
          # What is dropped.
          metrics = { metric = ["name != \"${local.scaling_metrics[slot.kind]}\""] }
        }
        "attributes/scaling" = {
          actions = [for dimension, value in local.dimensions : { action = "upsert", key = dimension, value = value }]
        }
      }

      exporters = merge(
        {
          awsemf = {
            region                  = var.region
            namespace               = local.namespace
            log_group_name          = var.log_group_name
            log_stream_name         = name
            dimension_rollup_option = "NoDimensionRollup"
            metric_declarations     = [{ dimensions = [keys(local.dimensions)], metric_name_selectors = ["^${local.scaling_metrics[slot.kind]}$"] }]
          }
          awsxray = { region = var.region }
        },
        {
          for region, writer in local.writers : writer => {
            endpoint = var.workspaces[region].remote_write_url
            auth     = { authenticator = local.authenticators[region] }
            # Names have their units already.
            add_metric_suffixes = false
            target_info         = { enabled = false }
          }
        },
      )

      service = {
        extensions = values(local.authenticators)
        telemetry  = { logs = { level = "warn" } }
        pipelines = merge(
          {
            "metrics/scaling" = {
              receivers  = ["prometheus"]
              processors = ["memory_limiter", "filter/scaling", "attributes/scaling", "batch"]
              exporters  = ["awsemf"]
            }
            traces = { receivers = ["otlp"], processors = ["memory_limiter", "batch"], exporters = ["awsxray"] }
          },
          {
            for name in ["metrics"] : name => {
              receivers  = ["prometheus"]
              processors = ["memory_limiter", "batch"]
              exporters  = values(local.writers)
            } if length(var.workspaces) > 0
          },
        )
      }
    })
  }
}
