variable "name" {
  description = "Name of the system and the region, such as `highwater-us-east-1`; the beginning of all names."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,39}$", var.name))
    error_message = "Must be 2 to 40 lower-case letters, digits or '-', beginning with a letter."
  }
}

variable "region" {
  description = "AWS region of the workspace."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "Must be the name of an AWS region, such as us-east-1."
  }
}

variable "account_id" {
  description = "Account that owns the workspace."
  type        = string

  validation {
    condition     = can(regex("^[0-9]{12}$", var.account_id))
    error_message = "Must be the 12 digits of an account."
  }
}

variable "kms_key_arn" {
  description = "Key of this region that encrypts metrics and logs. Another one makes another workspace, without what this one has."
  type        = string

  validation {
    condition     = can(regex("^arn:[^:]+:kms:${var.region}:", var.kms_key_arn))
    error_message = "Must be the ARN of a KMS key of this region."
  }
}

variable "topic_arn" {
  description = "Topic of this region that alerts are sent to, from `notifications`."
  type        = string

  validation {
    condition     = can(regex("^arn:[^:]+:sns:${var.region}:", var.topic_arn))
    error_message = "Must be the ARN of a topic of this region."
  }
}

variable "rules" {
  description = "By the name of a namespace, a file of Prometheus's rules as YAML: those of dashboards/prometheus."
  type        = map(string)

  validation {
    condition     = length(var.rules) > 0 && alltrue([for text in values(var.rules) : try(length(yamldecode(text).groups) > 0, false)])
    error_message = "At least one file, each with groups of rules."
  }
  validation {
    condition = alltrue([
      for rule in flatten([for text in values(var.rules) : try(yamldecode(text).groups[*].rules, [])]) :
      contains(["page", "ticket", "info"], try(rule.labels.severity, "")) if can(rule.alert)
    ])
    error_message = "Every alert has the severity page, ticket or info: there are routes for these."
  }
}

variable "log_retention_days" {
  description = "How long it is kept what went wrong with rules and notifications."
  type        = number
  default     = 365

  validation {
    condition     = contains([30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "Must be a period that CloudWatch Logs knows, of at least 30 days."
  }
}

variable "endpoint" {
  description = "The endpoint of this region's `network` for metrics: its name and that name's zone. Needed where other regions write here."
  type        = object({ dns_name = string, zone_id = string })
  default     = null

  validation {
    condition     = var.endpoint == null ? true : var.endpoint.dns_name != "" && var.endpoint.zone_id != ""
    error_message = "Name and zone are given together."
  }
}

variable "remote_vpc_ids" {
  description = "By other region, its VPC, whose collectors write here."
  type        = map(string)
  default     = {}

  validation {
    condition     = !contains(keys(var.remote_vpc_ids), var.region)
    error_message = "Must not contain the region's own VPC, which has the name already."
  }
  validation {
    condition     = length(var.remote_vpc_ids) == 0 || var.endpoint != null
    error_message = "Must be set together with the region's endpoint, through which other regions write."
  }
}

variable "grafana" {
  description = "Amazon Managed Grafana, and how people log in (`AWS_SSO`, `SAML`); null: none, dashboards are looked at in a Grafana of one's own."
  type        = object({ authentication = set(string), version = optional(string, "10.4") })
  default     = null

  validation {
    condition     = var.grafana == null ? true : length(var.grafana.authentication) > 0 && length(setsubtract(var.grafana.authentication, ["AWS_SSO", "SAML"])) == 0
    error_message = "Must be AWS_SSO, SAML or both: Grafana on AWS has no other logins."
  }
}
