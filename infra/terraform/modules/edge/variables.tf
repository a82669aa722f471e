variable "name" {
  description = "Name of the system and the region; the beginning of all names, such as `highwater-us-east-1`."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,31}$", var.name)) && !endswith(var.name, "-")
    error_message = "Must be 2 to 32 lower-case letters, digits or '-', because names of load balancers are short."
  }
}

variable "region" {
  description = "AWS region of the load balancer, by which DNS measures the clients' latency."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "Must be the name of an AWS region, such as us-east-1."
  }
}

variable "vpc_id" {
  description = "VPC of the load balancer."
  type        = string

  validation {
    condition     = can(regex("^vpc-[0-9a-z]+$", var.vpc_id))
    error_message = "Must be the id of a VPC."
  }
}

variable "edge_security_group_id" {
  description = "Group of the region's edges, from `service`."
  type        = string

  validation {
    condition     = startswith(var.edge_security_group_id, "sg-")
    error_message = "Must be the id of a security group."
  }
}

variable "subnet_ids" {
  description = "Subnets with a way in from the internet, over at least two zones."
  type        = list(string)

  validation {
    condition     = length(var.subnet_ids) >= 2
    error_message = "A load balancer needs subnets in at least two zones."
  }
}

variable "target_group_arn" {
  description = "Group of the region's edges, from `service`."
  type        = string

  validation {
    condition     = can(regex("^arn:[^:]+:elasticloadbalancing:${var.region}:[0-9]*:targetgroup/", var.target_group_arn))
    error_message = "Must be the ARN of a target group of this region."
  }
}

variable "target_group_arn_suffix" {
  description = "The same as CloudWatch names it, from `service`."
  type        = string

  validation {
    condition     = can(regex("^targetgroup/", var.target_group_arn_suffix))
    error_message = "Must be what follows the account in the ARN of the target group: targetgroup/NAME/ID."
  }
}

variable "edge_ports" {
  description = "Ports of the edges: requests, and operators' for health checks."
  type        = list(number)
  default     = [8080, 9901]

  validation {
    condition     = length(var.edge_ports) > 0 && alltrue([for port in var.edge_ports : port >= 1 && port <= 65535 && floor(port) == port])
    error_message = "At least one port, each from 1 to 65535."
  }
}

variable "domain_name" {
  description = "Name under which clients reach the system; the same in every region."
  type        = string

  validation {
    condition     = can(regex("^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]{2,63}$", var.domain_name))
    error_message = "Must be a domain name in lower case."
  }
}

variable "zone_id" {
  description = "Public hosted zone in which the name is."
  type        = string

  validation {
    condition     = can(regex("^[A-Z0-9]{1,32}$", var.zone_id))
    error_message = "Must be the id of a hosted zone."
  }
}

variable "certificate_arn" {
  description = "Certificate for the name, of ACM in this region."
  type        = string

  validation {
    condition     = can(regex("^arn:[^:]+:acm:${var.region}:", var.certificate_arn))
    error_message = "Must be the ARN of a certificate of ACM in this region: a load balancer takes no others."
  }
}

variable "client_cidrs" {
  description = "Ranges from which clients may come, by a name for each."
  type        = map(string)
  default     = { everybody = "0.0.0.0/0" }

  validation {
    condition     = length(var.client_cidrs) > 0 && alltrue([for cidr in values(var.client_cidrs) : can(cidrhost(cidr, 0))])
    error_message = "At least one range of addresses."
  }
}

variable "requests_per_address" {
  description = "Requests of one address in five minutes above which WAF refuses it with 403; null: no WAF. The edge has limits of its own, which answer in the product's shape."
  type        = number
  default     = null

  validation {
    condition     = var.requests_per_address == null ? true : var.requests_per_address >= 100 && var.requests_per_address <= 2000000000
    error_message = "Must be at least 100, the lowest rate that WAF can limit."
  }
}

variable "access_log_bucket" {
  description = "S3 bucket of this region for the load balancer's access logs; null: none. The edges write an access log in any case."
  type        = string
  default     = null

  validation {
    condition     = var.access_log_bucket == null ? true : can(regex("^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$", var.access_log_bucket))
    error_message = "Must be the name of a bucket."
  }
}

variable "deletion_protection" {
  description = "Whether the load balancer refuses to be deleted. False only for systems that are thrown away."
  type        = bool
  default     = true
}

variable "alarm_topic_arns" {
  description = "SNS topics of this region that alarms are sent to."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for arn in var.alarm_topic_arns : can(regex("^arn:[^:]+:sns:${var.region}:", arn))])
    error_message = "Each must be the ARN of an SNS topic of this region: alarms send to no other."
  }
}

variable "postgres" {
  description = "For PostgreSQL clients: the name under which they reach the system, the same in every region, and `postgres_target_group_arns` of `service`, by port; null: none."
  type        = object({ domain_name = string, target_group_arns = map(string) })
  default     = null

  validation {
    condition     = var.postgres == null ? true : can(regex("^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]{2,63}$", var.postgres.domain_name)) && var.postgres.domain_name != var.domain_name
    error_message = "The name must be a domain name in lower case, other than `domain_name`: one name leads to one load balancer."
  }
  validation {
    condition     = var.postgres == null ? true : length(var.postgres.target_group_arns) > 0 && alltrue([for port in keys(var.postgres.target_group_arns) : can(regex("^[1-9][0-9]*$", port))])
    error_message = "There must be at least one group, and each needs its port."
  }
}
