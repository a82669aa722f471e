output "url" {
  description = "For `gateway` and `tracker` of the SDK's endpoints: the nearest healthy region."
  value       = "https://${var.domain_name}"
}

output "load_balancer_dns_name" {
  description = "Name of this region's load balancer."
  value       = aws_lb.this.dns_name
}

output "load_balancer_arn_suffix" {
  description = "The load balancer as CloudWatch names it."
  value       = aws_lb.this.arn_suffix
}

output "security_group_id" {
  description = "Group of the load balancer; only it may send requests to edges."
  value       = aws_security_group.this.id
}

output "postgres_host" {
  description = "For a connection string, with port 5432, or 5433 for reads: the nearest healthy region; null without `postgres`."
  value       = one(aws_route53_record.postgres[*].name)
}
