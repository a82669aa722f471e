variables {
  region = "us-east-1"
  system = "highwater-us-east-1"
  slots = {
    us-east-1-gateway-1 = { kind = "gateway", port = 4600 }
    us-east-1-gateway-2 = { kind = "gateway", port = 4610 }
    us-east-1-tracker-1 = { kind = "tracker", port = 4601 }
  }
  workspaces = {
    us-east-1 = { remote_write_url = "https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-1/api/v1/remote_write" }
    us-west-2 = { remote_write_url = "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-2/api/v1/remote_write" }
  }
  log_group_name = "/highwater-us-east-1/metrics"
}

run "each_scrapes_its_own_service" {
  command = plan

  assert {
    condition = alltrue([
      for name, slot in var.slots : yamldecode(output.configurations[name]).receivers.prometheus.config.scrape_configs == [{
        job_name        = "highwater-${slot.kind}"
        scrape_interval = "15s"
        scheme          = "https"
        tls_config      = { insecure_skip_verify = true }
        static_configs  = [{ targets = ["127.0.0.1:${slot.port}"], labels = { instance = name } }]
      }]
    ])
    error_message = "A collector must scrape its own slot's port over TLS, and set the slot's name as `instance`."
  }
  assert {
    condition = alltrue([
      for configuration in values(output.configurations) : toset(yamldecode(configuration).service.pipelines.metrics.exporters) == toset(["prometheusremotewrite/us-east-1", "prometheusremotewrite/us-west-2"])
    ])
    error_message = "The collector must send all metrics to every workspace."
  }
  assert {
    condition = alltrue([
      for region in ["us-east-1", "us-west-2"] : yamldecode(output.configurations["us-east-1-tracker-1"]).extensions["sigv4auth/${region}"].region == region
    ])
    error_message = "Requests must be signed for the region of the workspace, not of the task."
  }
  assert {
    condition = alltrue([
      for configuration in values(output.configurations) : alltrue([
        for pipeline in values(yamldecode(configuration).service.pipelines) : pipeline.processors[0] == "memory_limiter"
      ])
    ])
    error_message = "The memory limiter must be the first processor."
  }
  assert {
    condition     = output.environment.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT == "http://${yamldecode(output.configurations["us-east-1-gateway-2"]).receivers.otlp.protocols.http.endpoint}/v1/traces"
    error_message = "A service must send traces to the address on which the collector listens."
  }
}

run "without_a_workspace" {
  command = plan
  variables {
    workspaces = {}
  }

  assert {
    condition     = join(" ", keys(yamldecode(output.configurations["us-east-1-gateway-1"]).service.pipelines)) == "metrics/scaling traces"
    error_message = "Scaling and traces must work without a workspace."
  }
}

run "a_workspace_without_tls" {
  command = plan
  variables {
    workspaces = { us-east-1 = { remote_write_url = "http://aps-workspaces.us-east-1.amazonaws.com/api/v1/remote_write" } }
  }
  expect_failures = [var.workspaces]
}

run "an_edge_has_no_such_metrics" {
  command = plan
  variables {
    slots = { edge = { kind = "edge", port = 8080 } }
  }
  expect_failures = [var.slots]
}

run "a_port_that_the_collector_has" {
  command = plan
  variables {
    slots = { us-east-1-gateway-1 = { kind = "gateway", port = 4318 } }
  }
  expect_failures = [var.slots]
}

run "scrapes_too_seldom_for_the_rules" {
  command = plan
  variables {
    scrape_interval_s = 300
  }
  expect_failures = [var.scrape_interval_s]
}
