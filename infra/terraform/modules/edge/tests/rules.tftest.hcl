mock_provider "aws" {
  mock_resource "aws_lb" {
    defaults = { arn = "arn:aws:elasticloadbalancing:us-east-1:111122223333:loadbalancer/app/one/1" }
  }
  mock_resource "aws_wafv2_web_acl" {
    defaults = { arn = "arn:aws:wafv2:us-east-1:111122223333:regional/webacl/one/1" }
  }
}

variables {
  name                    = "highwater-us-east-1"
  region                  = "us-east-1"
  vpc_id                  = "vpc-1"
  edge_security_group_id  = "sg-edges"
  subnet_ids              = ["subnet-1", "subnet-2", "subnet-3"]
  target_group_arn        = "arn:aws:elasticloadbalancing:us-east-1:111122223333:targetgroup/one/1"
  target_group_arn_suffix = "targetgroup/one/1"
  domain_name             = "db.example.com"
  zone_id                 = "Z1"
  certificate_arn         = "arn:aws:acm:us-east-1:111122223333:certificate/1"
}

run "tls_and_nothing_else" {
  command = plan

  assert {
    condition     = aws_lb_listener.https.protocol == "HTTPS" && strcontains(aws_lb_listener.https.ssl_policy, "TLS13-1-2") && aws_lb.this.drop_invalid_header_fields
    error_message = "The load balancer must require TLS 1.2 or newer and drop invalid headers."
  }
  assert {
    condition     = alltrue([for rule in aws_vpc_security_group_ingress_rule.https : rule.from_port == 443 && rule.to_port == 443])
    error_message = "Only HTTPS may be open."
  }
  assert {
    condition     = aws_route53_record.this.latency_routing_policy[0].region == "us-east-1" && aws_route53_record.this.alias[0].evaluate_target_health
    error_message = "DNS must lead clients to the nearest healthy region."
  }
  assert {
    condition     = aws_route53_health_check.this.insufficient_data_health_status == "Unhealthy"
    error_message = "A region that does not report must count as unhealthy."
  }
  assert {
    condition     = length(aws_wafv2_web_acl.this) == 0
    error_message = "WAF must be off by default."
  }
}

run "with_a_rate_rule" {
  command = plan
  variables {
    requests_per_address = 10000
  }

  assert {
    condition     = length(aws_wafv2_web_acl_association.this) == 1
    error_message = "The rule must apply to the load balancer."
  }
}

run "a_rate_that_waf_does_not_count" {
  command = plan
  variables {
    requests_per_address = 10
  }
  expect_failures = [var.requests_per_address]
}

run "a_certificate_of_another_region" {
  command = plan
  variables {
    certificate_arn = "arn:aws:acm:us-west-2:111122223333:certificate/1"
  }
  expect_failures = [var.certificate_arn]
}

run "one_zone" {
  command = plan
  variables {
    subnet_ids = ["subnet-1"]
  }
  expect_failures = [var.subnet_ids]
}

run "postgresql_clients" {
  command = plan
  variables {
    postgres = {
      domain_name = "postgres.example.com"
      target_group_arns = {
        "5432" = "arn:aws:elasticloadbalancing:us-east-1:111122223333:targetgroup/two/2"
        "5433" = "arn:aws:elasticloadbalancing:us-east-1:111122223333:targetgroup/three/3"
      }
    }
    client_cidrs = { office = "192.0.2.0/24", home = "198.51.100.0/24" }
  }

  assert {
    condition     = aws_lb.postgres[0].load_balancer_type == "network" && alltrue([for listener in aws_lb_listener.postgres : listener.protocol == "TCP"])
    error_message = "The load balancer must forward PostgreSQL clients' bytes unchanged."
  }
  assert {
    condition     = tomap({ for listener in aws_lb_listener.postgres : tostring(listener.port) => listener.default_action[0].target_group_arn }) == var.postgres.target_group_arns
    error_message = "Each port must lead to its own group of the edges."
  }
  assert {
    condition     = aws_route53_record.postgres[0].latency_routing_policy[0].region == "us-east-1" && output.postgres_host == "postgres.example.com"
    error_message = "DNS must lead PostgreSQL clients to the nearest healthy region, too."
  }
  assert {
    condition = toset([for rule in aws_vpc_security_group_egress_rule.edges : rule.to_port]) == toset([8080, 9901, 5432, 5433]) && (
      toset([for rule in aws_vpc_security_group_ingress_rule.postgres : "${rule.cidr_ipv4} ${rule.from_port} ${rule.to_port}"]) ==
      toset(["192.0.2.0/24 5432 5432", "192.0.2.0/24 5433 5433", "198.51.100.0/24 5432 5432", "198.51.100.0/24 5433 5433"])
    )
    error_message = "The security group must let PostgreSQL clients in, and their connections out to the edges."
  }
}

run "one_name_for_two_load_balancers" {
  command = plan
  variables {
    postgres = { domain_name = "db.example.com", target_group_arns = { "5432" = "arn:aws:elasticloadbalancing:us-east-1:111122223333:targetgroup/two/2" } }
  }
  expect_failures = [var.postgres]
}

run "postgresql_clients_without_a_port" {
  command = plan
  variables {
    postgres = { domain_name = "postgres.example.com", target_group_arns = {} }
  }
  expect_failures = [var.postgres]
}
