output "vpc_id" {
  description = "The VPC."
  value       = aws_vpc.this.id
}

output "cidr" {
  description = "Its range."
  value       = var.cidr
}

output "ranges" {
  description = "The parts of it that hold the subnets of tasks and of databases: what other regions let in, whose groups they cannot name."
  value       = { services = cidrsubnet(var.cidr, 2, 1), databases = cidrsubnet(var.cidr, 2, 2) }
}

output "edge_subnet_ids" {
  description = "Subnets of the load balancer, by zone; the only ones with a way in from the internet."
  value       = { for zone in var.zones : zone => aws_subnet.this["edge/${zone}"].id }
}

output "service_subnet_ids" {
  description = "Private subnets of tasks, by zone."
  value       = { for zone in var.zones : zone => aws_subnet.this["service/${zone}"].id }
}

output "data_subnet_ids" {
  description = "Private subnets of databases, by zone."
  value       = { for zone in var.zones : zone => aws_subnet.this["data/${zone}"].id }
}

output "private_route_table_ids" {
  description = "Route tables of the private subnets, by a name that is known before they exist; peerings add their routes to them."
  value = merge(
    { for zone in var.zones : "service-${zone}" => aws_route_table.service[zone].id },
    { data = aws_route_table.data.id },
  )
}

output "endpoint_security_group_id" {
  description = "Group of the endpoints to AWS services; tasks send HTTPS to it."
  value       = aws_security_group.endpoints.id
}

output "metrics_endpoint" {
  description = "The endpoint for workspaces of metrics: its name in this region, and that name's zone."
  value = {
    dns_name = aws_vpc_endpoint.interface["aps-workspaces"].dns_entry[0].dns_name
    zone_id  = aws_vpc_endpoint.interface["aps-workspaces"].dns_entry[0].hosted_zone_id
  }
}

output "s3_prefix_list_id" {
  description = "Addresses of S3 in this region, where layers of images are; tasks send HTTPS to it."
  value       = aws_vpc_endpoint.s3.prefix_list_id
}

output "fence" {
  description = "Where a failover cuts this region's database off: `fences` of the other regions' `failover`."
  value = {
    region         = var.region
    network_acl_id = aws_network_acl.fence.id
    subnet_ids     = [for zone in var.zones : aws_subnet.this["data/${zone}"].id]
  }
}
