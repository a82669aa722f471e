variable "name" {
  description = "Name of the pair of regions, such as `highwater-us-east-1-us-west-2`."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,79}$", var.name))
    error_message = "Must be 2 to 80 lower-case letters, digits or '-', beginning with a letter."
  }
}

variable "requester" {
  description = "The side that asks: `vpc_id`, `cidr` and `private_route_table_ids` of its `network`."
  type        = object({ vpc_id = string, cidr = string, private_route_table_ids = map(string) })

  validation {
    condition     = can(cidrhost(var.requester.cidr, 0)) && length(var.requester.private_route_table_ids) > 0
    error_message = "Must have a range, and the route tables that are to know the way."
  }
}

variable "accepter" {
  description = "The other side, and the name of its region."
  type        = object({ vpc_id = string, cidr = string, private_route_table_ids = map(string), region = string })

  validation {
    condition     = can(cidrhost(var.accepter.cidr, 0)) && length(var.accepter.private_route_table_ids) > 0
    error_message = "Must have a range, and the route tables that are to know the way."
  }
  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.accepter.region))
    error_message = "Must be in an AWS region, such as us-west-2."
  }
  # Two ranges overlap if and only if the wider one's network is that of both.
  validation {
    condition = (
      cidrsubnet("${split("/", var.requester.cidr)[0]}/${min(split("/", var.requester.cidr)[1], split("/", var.accepter.cidr)[1])}", 0, 0) !=
      cidrsubnet("${split("/", var.accepter.cidr)[0]}/${min(split("/", var.requester.cidr)[1], split("/", var.accepter.cidr)[1])}", 0, 0)
    )
    error_message = "The ranges of the two regions overlap, so the regions cannot be peered."
  }
}
