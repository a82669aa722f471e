output "topology_json" {
  description = "Value of `HIGHWATER_TOPOLOGY` for every service: nodes and levels, weakest level first. Holds no password."
  value       = "{\"nodes\":${jsonencode(local.nodes)},\"levels\":{${local.levels}}}"
}

output "regions" {
  description = "By region: its gateways and trackers (name, private address, ports, place among the burst slots), the base URLs of all trackers and the regions of the edge's source, both nearest first."
  value = {
    for region, its in var.regions : region => {
      gateways = local.slots[region].gateway
      trackers = local.slots[region].tracker
      tracker_urls = flatten([
        for near in concat([region], its.nearest) : [for tracker in local.slots[near].tracker : "https://${tracker.address}:${tracker.port}"]
      ])
      edge_regions = [
        for near in concat([region], its.nearest) : {
          name     = near
          gateways = [for gateway in local.slots[near].gateway : { name = gateway.name, address = gateway.address, port = gateway.port, postgresPort = gateway.postgres_port, postgresReadPort = gateway.postgres_read_port }]
          trackers = [for tracker in local.slots[near].tracker : { name = tracker.name, address = tracker.address, port = tracker.port }]
        }
      ]
    }
  }
}

output "gateway_count" {
  description = "Gateways of all regions that may run at once; `GATEWAY_EXPOSURE_GATEWAYS`."
  value       = sum([for region in values(var.regions) : region.gateways.base + region.gateways.burst])
}

output "tracker_count" {
  description = "Trackers of all regions that may run at once."
  value       = sum([for region in values(var.regions) : region.trackers.base + region.trackers.burst])
}

output "domain" {
  description = "Private domain of the services."
  value       = var.domain
}

output "service_role" {
  description = "Role of the database as which services log in."
  value       = var.service_role
}

output "ports" {
  description = "Ports of gateways and trackers."
  value       = var.ports
}
