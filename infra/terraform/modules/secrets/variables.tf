variable "name" {
  description = "Name of the system; the beginning of all names."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,39}$", var.name))
    error_message = "Must be 2 to 40 lower-case letters, digits or '-', beginning with a letter."
  }
}

variable "kms_key_arn" {
  description = "Key that encrypts the secrets in the region where they are made."
  type        = string

  validation {
    condition     = can(regex("^arn:[^:]+:kms:", var.kms_key_arn))
    error_message = "Must be the ARN of a KMS key."
  }
}

variable "replica_kms_key_arns" {
  description = "By further region, its key. Every region reads a copy of its own: a secret that was in the lost region would stop the others at their next restart."
  type        = map(string)

  validation {
    condition     = alltrue([for region, arn in var.replica_kms_key_arns : can(regex("^arn:[^:]+:kms:${region}:", arn))])
    error_message = "Each must be the ARN of a KMS key of its region."
  }
}

variable "values_version" {
  description = "Raised when the values below are to be written anew. Values are ephemeral: neither plan nor state holds them, so no change of them could be seen."
  type        = number
  default     = 1

  validation {
    condition     = var.values_version >= 1 && floor(var.values_version) == var.values_version
    error_message = "Must be a whole number, from 1 on."
  }
}

variable "master_password" {
  description = "Password of the database's master user."
  type        = string
  sensitive   = true
  ephemeral   = true

  validation {
    condition     = can(regex("^[!#-.0-?A-~]{16,128}$", var.master_password))
    error_message = "Must have 16 to 128 printable ASCII characters without '/', '@', '\"' and space: RDS takes no others."
  }
}

variable "service_password" {
  description = "Password of the services' role of the database."
  type        = string
  sensitive   = true
  ephemeral   = true

  validation {
    condition     = length(var.service_password) >= 16
    error_message = "Must have at least 16 characters."
  }
}

variable "internal_secret" {
  description = "By which trackers know gateways: `HIGHWATER_INTERNAL_SECRET`."
  type        = string
  sensitive   = true
  ephemeral   = true

  validation {
    condition     = length(var.internal_secret) >= 16
    error_message = "Must have at least 16 characters."
  }
}

variable "deployment_secret" {
  description = "Of the first key that signs tokens and tags receipts: `HIGHWATER_DEPLOYMENT_KEYS`. It is written once; `values_version` does not write it anew."
  type        = string
  sensitive   = true
  ephemeral   = true

  validation {
    condition     = length(var.deployment_secret) >= 32
    error_message = "Must have at least 32 characters."
  }
}

variable "recovery_window_days" {
  description = "How long a deleted secret can be brought back; 0: not at all, for systems that are thrown away."
  type        = number
  default     = 30

  validation {
    condition     = var.recovery_window_days == 0 || (var.recovery_window_days >= 7 && var.recovery_window_days <= 30)
    error_message = "Must be 0, or 7 to 30."
  }
}
