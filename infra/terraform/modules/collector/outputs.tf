output "configurations" {
  description = "By slot, the collector's configuration as YAML."
  value       = local.configurations
}

output "environment" {
  description = "Environment that turns traces on in a service that has this collector beside it. Metrics are scraped, and logs go to CloudWatch from standard error."
  value       = { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT = "http://127.0.0.1:${var.traces_port}/v1/traces" }
}

output "scaling" {
  description = "Where CloudWatch has what scaling reads: namespace, dimensions, and the name of the metric by kind of slot."
  value       = { namespace = local.namespace, dimensions = local.dimensions, metrics = local.scaling_metrics }
}
