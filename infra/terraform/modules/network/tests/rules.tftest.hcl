mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }
  # The provider looks at what the flow log is given; OpenTofu makes values up for a plan already.
  mock_resource "aws_cloudwatch_log_group" {
    defaults = { arn = "arn:aws:logs:us-east-1:111122223333:log-group:flow" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::111122223333:role/flow" }
  }
  mock_resource "aws_vpc_endpoint" {
    defaults = { dns_entry = [{ dns_name = "vpce-1.aps-workspaces.us-east-1.vpce.amazonaws.com", hosted_zone_id = "Z1" }] }
  }
}

variables {
  name        = "highwater-us-east-1"
  region      = "us-east-1"
  cidr        = "10.10.0.0/16"
  zones       = ["us-east-1a", "us-east-1b", "us-east-1c"]
  kms_key_arn = "arn:aws:kms:us-east-1:111122223333:key/0"
}

run "private_by_default" {
  command = plan

  assert {
    condition = alltrue(flatten([for zone in var.zones : [
      cidrsubnet("${split("/", aws_subnet.this["service/${zone}"].cidr_block)[0]}/18", 0, 0) == output.ranges.services,
      cidrsubnet("${split("/", aws_subnet.this["data/${zone}"].cidr_block)[0]}/18", 0, 0) == output.ranges.databases,
      !contains(values(output.ranges), cidrsubnet("${split("/", aws_subnet.this["edge/${zone}"].cidr_block)[0]}/18", 0, 0)),
    ]]))
    error_message = "The ranges that other regions allow must contain the subnets of tasks and databases, and nothing else."
  }
  assert {
    condition     = length(aws_subnet.this) == 9 && length(distinct([for subnet in aws_subnet.this : subnet.cidr_block])) == 9
    error_message = "There must be three tiers in three zones, and no two subnets may share a range."
  }
  assert {
    condition     = alltrue([for subnet in aws_subnet.this : subnet.map_public_ip_on_launch == false])
    error_message = "No subnet may assign public addresses."
  }
  assert {
    condition     = length(aws_eip.nat) == 0 && length(aws_route.service_out) == 0
    error_message = "By default, only the edge may have a public address."
  }
  assert {
    condition     = aws_flow_log.this.traffic_type == "ALL"
    error_message = "Flow logs must contain refused traffic, too."
  }
  assert {
    condition     = length(aws_default_security_group.this.ingress) == 0 && length(aws_default_security_group.this.egress) == 0
    error_message = "The default security group must allow no traffic."
  }
}

run "egress_when_it_is_asked_for" {
  command = plan
  variables {
    internet_egress = true
  }

  assert {
    condition     = length(aws_nat_gateway.this) == 3 && length(aws_route.service_out) == 3
    error_message = "There must be a NAT gateway in each zone."
  }
}

run "collectors_of_other_regions" {
  command = plan
  variables {
    endpoint_clients = { us-west-2 = "10.20.0.0/16" }
  }

  assert {
    condition     = aws_vpc_security_group_ingress_rule.endpoint_clients["us-west-2"].cidr_ipv4 == "10.20.0.0/16" && aws_vpc_security_group_ingress_rule.endpoint_clients["us-west-2"].from_port == 443
    error_message = "The other region's tasks must reach the endpoints, and only by HTTPS."
  }
}

run "everybody_at_the_endpoints" {
  command = plan
  variables {
    endpoint_clients = { world = "0.0.0.0/0" }
  }
  expect_failures = [var.endpoint_clients]
}

run "two_zones" {
  command = plan
  variables {
    zones = ["us-east-1a", "us-east-1b"]
  }
  expect_failures = [var.zones]
}

run "the_same_zone_twice" {
  command = plan
  variables {
    zones = ["us-east-1a", "us-east-1b", "us-east-1a"]
  }
  expect_failures = [var.zones]
}

run "zones_of_another_region" {
  command = plan
  variables {
    zones = ["us-west-2a", "us-west-2b", "us-west-2c"]
  }
  expect_failures = [var.region]
}

run "a_public_range" {
  command = plan
  variables {
    cidr = "54.10.0.0/16"
  }
  expect_failures = [var.cidr]
}

run "a_range_that_is_too_small" {
  command = plan
  variables {
    cidr = "10.10.0.0/24"
  }
  expect_failures = [var.cidr]
}
