variable "name" {
  description = "Name of the system. All other names begin with it."
  type        = string
  default     = "highwater"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,19}$", var.name))
    error_message = "Must be 2 to 20 lower-case letters, digits or '-', beginning with a letter: names of load balancers hold it and the region's."
  }
}

variable "tags" {
  description = "Tags of everything, such as an owner and a cost centre."
  type        = map(string)
  default     = {}
}

variable "domain_name" {
  description = "Name under which clients reach the system."
  type        = string
}

variable "postgres_domain_name" {
  description = "Name under which PostgreSQL clients reach the system, on port 5432, or on port 5433 if they only read; null: PostgreSQL clients cannot connect."
  type        = string
  default     = null
}

variable "zone_id" {
  description = "Public hosted zone that contains `domain_name`."
  type        = string
}

variable "private_domain" {
  description = "Private domain under which services find each other."
  type        = string
  default     = "highwater.internal"
}

variable "images" {
  description = "Names and digests in the account's ECR: `service` (this repository's Dockerfile), `envoy`, and `collector` if you want telemetry; as `NAME@sha256:DIGEST`."
  type        = object({ service = string, envoy = string, collector = optional(string) })
}

variable "levels" {
  description = "Durability levels, weakest first (module `topology`)."
  type        = list(object({ name = string, primary = optional(bool), replicas = optional(number), outside = optional(string), regions = optional(string) }))
  default = [
    { name = "disk", primary = true },
    { name = "region", replicas = 1, outside = "region" },
    { name = "global", regions = "all" },
  ]
}

variable "exposure_level" {
  description = "The exposure level: a transaction that is not durable at this level counts as exposed."
  type        = string
  default     = "region"
}

variable "gateways" {
  description = "Gateways of each region: `base` always run, and up to `burst` more under load."
  type        = object({ base = number, burst = number })
  default     = { base = 2, burst = 2 }
}

variable "trackers" {
  description = "Trackers of each region: `base` always run, and up to `burst` more under load."
  type        = object({ base = number, burst = number })
  default     = { base = 2, burst = 0 }
}

variable "environment" {
  description = "Further settings of gateways and trackers, by variable."
  type        = object({ gateway = optional(map(string), {}), tracker = optional(map(string), {}) })
  default     = {}
}

variable "database_class" {
  description = "Instance class of every node, because each may become the primary."
  type        = string
  default     = "db.r7g.xlarge"
}

variable "max_connections" {
  description = "Sessions that each node allows."
  type        = number
  default     = 2000
}

variable "postgres_sessions" {
  description = "Sessions of PostgreSQL clients that one gateway accepts. Those of all gateways count towards `max_connections`."
  type        = number
  default     = 80
}

variable "internet_egress" {
  description = "Whether trackers may send webhooks to the internet, through NAT gateways."
  type        = bool
  default     = false
}

variable "requests_per_address" {
  description = "Number of requests from one address in five minutes above which WAF refuses the address; null: no WAF."
  type        = number
  default     = null
}

variable "notification_targets" {
  description = "Recipients of alarms and alerts (module `notifications`): email, https, or lambda, which gets those of its own region only."
  type = map(object({
    protocol   = string
    endpoint   = string
    severities = optional(set(string), ["page", "ticket"])
  }))
  default = {}
}

variable "grafana" {
  description = "Amazon Managed Grafana for each workspace of metrics, and how people log in (`AWS_SSO`, `SAML`); null: no Grafana."
  type        = object({ authentication = set(string), version = optional(string, "10.4") })
  default     = null
}

variable "secrets_version" {
  description = "Raise it to create new passwords and shared secrets (docs/deploy-aws.md)."
  type        = number
  default     = 1
}

variable "protected" {
  description = "Whether databases and load balancers refuse to be deleted, and deleted secrets can be restored. Set it to false only before you delete the system."
  type        = bool
  default     = true
}

variable "wait_for_steady_state" {
  description = "Whether a change waits until tasks are healthy; false only against a stand-in for AWS."
  type        = bool
  default     = true
}

variable "failover_approval" {
  description = "Approval of a failover (module `failover`): ARNs of the IAM users and roles that may approve, how many of them must, and who gets an e-mail. Null: there is no runbook, and you do every step by hand (docs/deploy-aws.md)."
  type        = object({ approvers = set(string), minimum = optional(number, 1), hours = optional(number, 24), emails = optional(set(string), []) })
  default     = null
}
