variable "name" {
  description = "Name of the system and the region; the beginning of all names, such as `highwater-us-east-1`."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,39}$", var.name))
    error_message = "Must be 2 to 40 lower-case letters, digits or '-', beginning with a letter."
  }
}

variable "cidr" {
  description = "Private IPv4 range of the VPC, from /16 to /20. The ranges of all regions must not overlap: they are peered."
  type        = string

  validation {
    condition     = can(cidrhost(var.cidr, 0)) && try(tonumber(split("/", var.cidr)[1]) >= 16 && tonumber(split("/", var.cidr)[1]) <= 20, false)
    error_message = "Must be an IPv4 range from /16 to /20, such as 10.10.0.0/16."
  }
  validation {
    condition     = can(regex("^(10\\.|172\\.(1[6-9]|2[0-9]|3[01])\\.|192\\.168\\.)", var.cidr))
    error_message = "Must be a private range (RFC 1918)."
  }
}

variable "zones" {
  description = "Availability zones, such as `us-east-1a`; three, so that the loss of one leaves a majority."
  type        = list(string)

  validation {
    condition     = length(distinct(var.zones)) == 3 && length(var.zones) == 3
    error_message = "Three different zones are needed."
  }
}

variable "region" {
  description = "AWS region of the VPC: names of endpoints hold it."
  type        = string

  validation {
    condition     = alltrue([for zone in var.zones : startswith(zone, var.region)])
    error_message = "The zones must be zones of the region."
  }
}

variable "internet_egress" {
  description = "Whether private subnets reach the internet through a NAT gateway in each zone. Needed for webhooks to receivers outside and for a JWKS of an issuer outside; nothing else of Highwater leaves the VPCs."
  type        = bool
  default     = false
}

variable "endpoint_clients" {
  description = "By other region, the range of its VPC, whose tasks use this one's endpoints: its collectors, where there is a workspace for metrics here."
  type        = map(string)
  default     = {}

  validation {
    condition     = !contains(keys(var.endpoint_clients), var.region) && alltrue([for cidr in values(var.endpoint_clients) : can(cidrhost(cidr, 0)) && can(regex("^(10\\.|172\\.(1[6-9]|2[0-9]|3[01])\\.|192\\.168\\.)", cidr))])
    error_message = "Private ranges of the other regions, not of the region itself."
  }
}

variable "flow_log_retention_days" {
  description = "How long flow logs are kept."
  type        = number
  default     = 365

  validation {
    condition     = contains([30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.flow_log_retention_days)
    error_message = "Must be a period that CloudWatch Logs knows, of at least 30 days."
  }
}

variable "kms_key_arn" {
  description = "Key of this region that encrypts the flow logs; its policy must let CloudWatch Logs use it."
  type        = string

  validation {
    condition     = can(regex("^arn:[^:]+:kms:", var.kms_key_arn))
    error_message = "Must be the ARN of a KMS key."
  }
}
