variable "name" {
  description = "Name of the system and the region, such as `highwater-us-east-1`. Only alarms whose names begin with it may send."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,39}$", var.name))
    error_message = "Must be 2 to 40 lower-case letters, digits or '-', beginning with a letter."
  }
}

variable "region" {
  description = "AWS region of the topic."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "Must be the name of an AWS region, such as us-east-1."
  }
}

variable "account_id" {
  description = "Account whose alarms and workspaces may send."
  type        = string

  validation {
    condition     = can(regex("^[0-9]{12}$", var.account_id))
    error_message = "Must be the 12 digits of an account."
  }
}

variable "kms_key_arn" {
  description = "Key of this region that encrypts the topic, from `key`: its policy lets CloudWatch and Prometheus send."
  type        = string

  validation {
    condition     = can(regex("^arn:[^:]+:kms:${var.region}:", var.kms_key_arn))
    error_message = "Must be the ARN of a KMS key of this region."
  }
}

variable "targets" {
  description = "Recipients, by a name for each: `email` (an address, whose owner confirms by a link), `https` (a URL, which confirms by itself: PagerDuty, Opsgenie and the like have one) or `lambda` (the ARN of a function of this region). `severities`: which alerts of the rules it gets; alarms of CloudWatch go to all."
  type = map(object({
    protocol   = string
    endpoint   = string
    severities = optional(set(string), ["page", "ticket"])
  }))
  default = {}

  validation {
    condition     = alltrue([for name in keys(var.targets) : can(regex("^[a-zA-Z0-9_-]{1,40}$", name))])
    error_message = "A target's name is 1 to 40 letters, digits, '-' or '_'."
  }
  validation {
    condition     = alltrue([for target in values(var.targets) : contains(["email", "https", "lambda"], target.protocol)])
    error_message = "A target is email, https or lambda."
  }
  validation {
    condition = alltrue([
      for target in values(var.targets) : target.protocol == "email" ? can(regex("^[^@[:space:]]+@[^@[:space:]]+\\.[^@[:space:]]+$", target.endpoint)) : true
    ])
    error_message = "The endpoint of an email target is an address, such as oncall@example.com."
  }
  validation {
    condition = alltrue([
      for target in values(var.targets) : target.protocol == "https" ? can(regex("^https://[^/@[:space:]]+(/[^[:space:]]*)?$", target.endpoint)) : true
    ])
    error_message = "The endpoint of an https target is a URL that begins with https:// and holds no user or password."
  }
  validation {
    condition = alltrue([
      for target in values(var.targets) : target.protocol == "lambda" ? can(regex("^arn:[^:]+:lambda:${var.region}:[0-9]{12}:function:[a-zA-Z0-9_-]+$", target.endpoint)) : true
    ])
    error_message = "The endpoint of a lambda target is the ARN of a function of this region, without a version."
  }
  validation {
    condition     = alltrue([for target in values(var.targets) : length(setsubtract(target.severities, ["page", "ticket", "info"])) == 0])
    error_message = "Severities are page, ticket and info."
  }
}
