output "url" {
  description = "URL of the system, for `gateway` and `tracker` of the SDK's endpoints."
  value       = module.edge_east.url
}

output "postgres_host" {
  description = "Host for the connection strings of PostgreSQL clients, with port 5432, or 5433 for reads; null if PostgreSQL clients cannot connect."
  value       = module.edge_east.postgres_host
}

output "topology_json" {
  description = "`HIGHWATER_TOPOLOGY` of every service, and of the commands `keys` and `failover-candidate`."
  value       = module.topology.topology_json
}

output "environments" {
  description = "Environment of each gateway and tracker, by region and slot, without the secrets."
  value = {
    us-east-1 = module.service_east.environments
    us-west-2 = module.service_west.environments
    eu-west-1 = module.service_europe.environments
  }
}

output "collectors" {
  description = "Configuration of each gateway's and tracker's collector, by region and slot, as YAML."
  value = {
    us-east-1 = module.service_east.collectors
    us-west-2 = module.service_west.collectors
    eu-west-1 = module.service_europe.collectors
  }
}

output "metrics" {
  description = "For each region with a workspace: the URL for its queries, and its Grafana if there is one (docs/deploy-aws.md)."
  value = {
    for region, its in { us-east-1 = module.observability_east, us-west-2 = module.observability_west } : region => {
      query_url                    = its[0].query_url
      grafana_url                  = its[0].grafana_url
      grafana_workspace_id         = its[0].grafana_workspace_id
    } if length(its) > 0
  }
}

output "secret_variables" {
  description = "Names of the variables that come from secrets, by kind of service."
  value       = module.service_east.secret_variables
}

output "edge_sources" {
  description = "Source of each region's edge (infra/envoy)."
  value = {
    us-east-1 = module.service_east.edge_source
    us-west-2 = module.service_west.edge_source
    eu-west-1 = module.service_europe.edge_source
  }
}

output "database_identifiers" {
  description = "RDS instances, by region."
  value = {
    us-east-1 = module.store_east.identifier
    us-west-2 = module.store_west.identifier
    eu-west-1 = module.store_europe.identifier
  }
}

output "clusters" {
  description = "ECS clusters, by region."
  value = {
    us-east-1 = module.service_east.cluster_name
    us-west-2 = module.service_west.cluster_name
    eu-west-1 = module.service_europe.cluster_name
  }
}

output "setup_command" {
  description = "Command to run once after the first apply. It creates the roles of the database."
  value       = module.service_east.setup_command
}

output "failover_commands" {
  description = "Command that an operator runs when the primary's region dies, by the region whose node should be promoted; null without `failover_approval`."
  value = {
    us-east-1 = one(module.failover_east[*].start_command)
    us-west-2 = one(module.failover_west[*].start_command)
    eu-west-1 = one(module.failover_europe[*].start_command)
  }
}

output "fences" {
  description = "The database's subnets and the ACL that cuts them off, by region, for a failover by hand."
  value       = local.fences
}
