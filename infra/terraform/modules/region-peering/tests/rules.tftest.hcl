mock_provider "aws" { alias = "requester" }
mock_provider "aws" { alias = "accepter" }

variables {
  name      = "highwater-us-east-1-us-west-2"
  requester = { vpc_id = "vpc-1", cidr = "10.10.0.0/16", private_route_table_ids = { data = "rtb-1", service-a = "rtb-2" } }
  accepter  = { vpc_id = "vpc-2", cidr = "10.20.0.0/16", private_route_table_ids = { data = "rtb-3" }, region = "us-west-2" }
}

run "routes_both_ways" {
  command = plan
  providers = {
    aws.requester = aws.requester
    aws.accepter  = aws.accepter
  }

  assert {
    condition     = length(aws_route.to_accepter) == 2 && length(aws_route.to_requester) == 1
    error_message = "Every private route table of both sides must get a route."
  }
  assert {
    condition     = alltrue([for route in aws_route.to_accepter : route.destination_cidr_block == "10.20.0.0/16"])
    error_message = "The requester's routes must lead to the accepter."
  }
}

run "ranges_that_overlap" {
  command = plan
  providers = {
    aws.requester = aws.requester
    aws.accepter  = aws.accepter
  }
  variables {
    accepter = { vpc_id = "vpc-2", cidr = "10.10.128.0/20", private_route_table_ids = { data = "rtb-3" }, region = "us-west-2" }
  }
  expect_failures = [var.accepter]
}
