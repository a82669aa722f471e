variable "name" {
  description = "Name of the system and the region, such as `highwater-us-east-1`."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,39}$", var.name))
    error_message = "Must be 2 to 40 lower-case letters, digits or '-', beginning with a letter."
  }
}

variable "account_id" {
  description = "Account that owns the key."
  type        = string

  validation {
    condition     = can(regex("^[0-9]{12}$", var.account_id))
    error_message = "Must be the 12 digits of an account."
  }
}

variable "region" {
  description = "AWS region of the key."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "Must be the name of an AWS region, such as us-east-1."
  }
}

variable "deletion_window_days" {
  description = "How long the deletion of the key can be taken back. Data that it has encrypted is lost with it."
  type        = number
  default     = 30

  validation {
    condition     = var.deletion_window_days >= 7 && var.deletion_window_days <= 30
    error_message = "Must be 7 to 30."
  }
}
