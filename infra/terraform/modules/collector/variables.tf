variable "region" {
  description = "The region of the tasks."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "Must be the name of an AWS region, such as us-east-1."
  }
}

variable "system" {
  description = "Name of the system and the region, such as `highwater-us-east-1`; the dimension of what scaling reads in CloudWatch."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,39}$", var.system))
    error_message = "Must be 2 to 40 lower-case letters, digits or '-', beginning with a letter."
  }
}

variable "slots" {
  description = "By name, each gateway and tracker and its port. The name is the label `instance` of its metrics."
  type        = map(object({ kind = string, port = number }))

  validation {
    condition     = alltrue([for slot in values(var.slots) : contains(["gateway", "tracker"], slot.kind)])
    error_message = "A slot is a gateway or a tracker: there are no metrics of anything else."
  }
  validation {
    condition     = alltrue([for slot in values(var.slots) : slot.port >= 1 && slot.port <= 65535 && slot.port != var.traces_port])
    error_message = "Each slot needs a port, and not that of the collector: they are in one task."
  }
}

variable "workspaces" {
  description = "By region, the remote-write URL of its workspace. Every collector writes to all of them: a workspace has the metrics of the whole system, or its alerts would mean something else."
  type        = map(object({ remote_write_url = string }))
  default     = {}

  validation {
    condition     = alltrue([for workspace in values(var.workspaces) : can(regex("^https://.+/remote_write$", workspace.remote_write_url))])
    error_message = "Must be https:// and end in /remote_write."
  }
}

variable "log_group_name" {
  description = "CloudWatch log group through which metrics for scaling come to CloudWatch."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z0-9._/#-]{1,512}$", var.log_group_name))
    error_message = "Must be the name of a CloudWatch log group."
  }
}

variable "scrape_interval_s" {
  description = "Seconds between two scrapes. Dashboards have to know it (docs/deploy-aws.md)."
  type        = number
  default     = 15

  validation {
    condition     = var.scrape_interval_s >= 1 && var.scrape_interval_s <= 60 && floor(var.scrape_interval_s) == var.scrape_interval_s
    error_message = "1 to 60 whole seconds: rates over two minutes need two points."
  }
}

variable "traces_port" {
  description = "Port on loopback at which the service finds the collector."
  type        = number
  default     = 4318

  validation {
    condition     = var.traces_port >= 1024 && var.traces_port <= 65535 && floor(var.traces_port) == var.traces_port
    error_message = "Must be a port from 1024 to 65535."
  }
}
