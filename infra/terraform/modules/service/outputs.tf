output "cluster_name" {
  description = "The ECS cluster."
  value       = aws_ecs_cluster.this.name
}

output "target_group_arn" {
  description = "Group of the region's edges, for the load balancer of `edge`."
  value       = aws_lb_target_group.edge.arn
}

output "target_group_arn_suffix" {
  description = "The same as CloudWatch names it."
  value       = aws_lb_target_group.edge.arn_suffix
}

output "postgres_target_group_arns" {
  description = "By port (5432, and 5433 for reads), the group of the region's edges for PostgreSQL clients, for `edge`; empty without `ports.postgres` and `ports.postgres_read` of `topology`."
  value       = { for name, its in local.postgres : tostring(its.edge_port) => aws_lb_target_group.postgres[name].arn }
}

output "namespace_zone_id" {
  description = "Hosted zone of the services' private names; the composition associates the other regions' VPCs with it."
  value       = aws_service_discovery_private_dns_namespace.this.hosted_zone
}

output "sessions_per_node" {
  description = "Database sessions that this region's services may open to each node: `service_sessions` of `store-rds-postgres` is the sum over all regions. With those of PostgreSQL clients. A tracker takes about ten."
  value = (
    length(var.slots.gateways) * (2 * var.pools.service + var.pools.role * var.pools.roles + 4 + (length(local.postgres) > 0 ? var.postgres_sessions : 0)) +
    length(var.slots.trackers) * 10
  )
}

output "environments" {
  description = "The environment of each gateway and tracker, by slot, without its secrets. Tests start real services from exactly this."
  value       = local.environments
}

output "collectors" {
  description = "Configuration of each gateway's and tracker's collector, by slot, as YAML; empty where there is none."
  value       = { for name, configuration in module.collector.configurations : name => configuration if var.images.collector != null }
}

output "secret_variables" {
  description = "Names of the variables that come from secrets, by kind of service."
  value       = { for kind, secrets in local.secrets : kind => keys(secrets) }
}

output "edge_source" {
  description = "Source from which the region's edge is made (infra/envoy)."
  value       = local.edge_source
}

output "security_group_ids" {
  description = "Groups of the slots and of the edges."
  value       = { slots = aws_security_group.slots.id, edge = aws_security_group.edge.id }
}

output "setup_command" {
  description = "Makes the roles of the database; null where the first primary is not."
  value = var.setup == null ? null : join(" ", [
    "aws ecs run-task --region ${var.region} --cluster ${aws_ecs_cluster.this.name} --launch-type FARGATE",
    "--task-definition ${aws_ecs_task_definition.setup[0].family}",
    "--network-configuration 'awsvpcConfiguration={subnets=[${join(",", values(var.network.service_subnet_ids))}],securityGroups=[${aws_security_group.slots.id}]}'",
  ])
}
