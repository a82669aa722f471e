variable "name" {
  description = "Name of the system and the region; the beginning of all names, such as `highwater-us-east-1`."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,39}$", var.name)) && !endswith(var.name, "-") && !strcontains(var.name, "--")
    error_message = "Must be 2 to 40 lower-case letters, digits or single '-', beginning with a letter: RDS allows no other names."
  }
}

variable "region" {
  description = "Region of the node, by its name in the topology; also the id of the node."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{0,24}$", var.region))
    error_message = "Must be 1 to 25 lower-case letters, digits or '-'."
  }
}

variable "role" {
  description = "`primary`, `replica` of the one in another region, or `promoted`: what was made as a replica and is a primary now. docs/deploy-aws.md says what to change after a failover."
  type        = string

  validation {
    condition     = contains(["primary", "replica", "promoted"], var.role)
    error_message = "Must be primary, replica or promoted."
  }
}

variable "replicate_source_arn" {
  description = "Of a replica: ARN of the primary's instance."
  type        = string
  default     = null

  validation {
    condition     = var.replicate_source_arn == null ? true : can(regex("^arn:[^:]+:rds:[^:]+:[^:]*:db:", var.replicate_source_arn))
    error_message = "Must be the ARN of an RDS instance: a replica in another region names its source by that."
  }
  validation {
    condition     = (var.role == "replica") == (var.replicate_source_arn != null)
    error_message = "A replica needs a source, and only a replica has one."
  }
}

variable "vpc_id" {
  description = "VPC of the node."
  type        = string

  validation {
    condition     = can(regex("^vpc-[0-9a-z]+$", var.vpc_id))
    error_message = "Must be the id of a VPC."
  }
}

variable "subnet_ids" {
  description = "Private subnets over at least two zones."
  type        = list(string)

  validation {
    condition     = length(var.subnet_ids) >= 2
    error_message = "RDS needs subnets in at least two zones."
  }
}

variable "client_security_group_ids" {
  description = "By a name, groups of this region from which services connect."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for id in values(var.client_security_group_ids) : startswith(id, "sg-")])
    error_message = "Each must be the id of a security group."
  }
}

variable "client_cidrs" {
  description = "By other region, the range of the subnets from which its services connect."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for cidr in values(var.client_cidrs) : can(cidrhost(cidr, 0)) && try(tonumber(split("/", cidr)[1]) >= 18, false)])
    error_message = "Ranges of subnets, none of them wider than /18."
  }
  validation {
    condition     = length(var.client_cidrs) + length(var.client_security_group_ids) > 0
    error_message = "Must have at least one group or range, because otherwise nothing can connect to the node."
  }
}

variable "engine_version" {
  description = "Version of PostgreSQL, the same for all nodes."
  type        = string
  default     = "17.6"

  validation {
    condition     = can(regex("^(1[6-9]|2[0-9])\\.[0-9]+$", var.engine_version))
    error_message = "Must be PostgreSQL 16 or newer, with its minor version: every restart begins an epoch, so RDS must not upgrade on its own."
  }
}

variable "instance_class" {
  description = "Class of the instance, the same for all nodes that may be promoted: a smaller replica falls behind, and durability with it."
  type        = string
  default     = "db.r7g.xlarge"

  validation {
    condition     = can(regex("^db\\.[a-z0-9]+\\.[a-z0-9]+$", var.instance_class)) && !can(regex("^db\\.t", var.instance_class))
    error_message = "Must be an instance class that is not burstable (db.t…): a node without credits stalls every level that counts it."
  }
}

variable "storage" {
  description = "gp3 storage: allocated GiB and the bound up to which RDS grows it."
  type        = object({ allocated_gib = number, max_gib = number })
  default     = { allocated_gib = 100, max_gib = 1000 }

  validation {
    condition     = var.storage.allocated_gib >= 20 && var.storage.max_gib >= ceil(var.storage.allocated_gib * 1.1)
    error_message = "At least 20 GiB, and room to grow by a tenth: log that a cut-off replica needs is kept here."
  }
}

variable "multi_az" {
  description = "A standby in another zone, to which RDS writes synchronously. Highwater does not see it: it is part of the primary, and its take-over a crash recovery that loses what was not yet flushed."
  type        = bool
  default     = true
}

variable "database" {
  description = "Name of the database."
  type        = string
  default     = "app"

  validation {
    condition     = can(regex("^[a-z][a-z0-9_]{0,62}$", var.database)) && !contains(["postgres", "template0", "template1", "rdsadmin"], var.database)
    error_message = "Must be a plain name: lower-case letters, digits and '_', and none of PostgreSQL's own."
  }
}

variable "master_username" {
  description = "Name of the master user."
  type        = string
  default     = "highwater_admin"

  validation {
    condition     = can(regex("^[a-z][a-z0-9_]{0,62}$", var.master_username)) && !contains(["postgres", "admin", "rdsadmin", "highwater_service", "highwater_app"], var.master_username)
    error_message = "Must be a plain name that neither RDS nor Highwater uses for something else."
  }
}

variable "master_password" {
  description = "Password of the master user, from its secret; ephemeral, so that neither plan nor state holds it. Null for a replica, which has the primary's, and for what was promoted, which keeps it. RDS's own management of it is refused for instances that have replicas."
  type        = string
  default     = null
  sensitive   = true
  ephemeral   = true

  validation {
    condition     = (var.role == "primary") == (var.master_password != null)
    error_message = "A primary has a password of its own, and a replica its primary's."
  }
}

variable "master_password_version" {
  description = "Raised when the master's password is to be set anew; null for a replica and for what was promoted."
  type        = number
  default     = null

  validation {
    condition     = (var.role == "primary") == (var.master_password_version != null)
    error_message = "A primary has a password of its own; a replica has its primary's, and keeps it when it is promoted."
  }
}

variable "kms_key_arn" {
  description = "Key of this region for the storage, backups and performance data."
  type        = string

  validation {
    condition     = can(regex("^arn:[^:]+:kms:", var.kms_key_arn))
    error_message = "Must be the ARN of a KMS key."
  }
}

variable "max_connections" {
  description = "Sessions that the node allows."
  type        = number
  default     = 1000

  validation {
    condition     = var.max_connections >= 100 && var.max_connections <= 10000
    error_message = "Must be 100 to 10000."
  }
}

# Exists for its rule alone, which no resource could check before it exists.
# tflint-ignore: terraform_unused_declarations
variable "service_sessions" {
  description = "Sessions that all gateways and trackers together may open to this node, as `service` counts them."
  type        = number

  # RDS and PostgreSQL keep some for themselves, and an operator has to get in.
  validation {
    condition     = var.service_sessions <= var.max_connections - 30
    error_message = "The services may open more sessions than the node allows. Raise max_connections, or lower pools and postgres_sessions of the services: a gateway that is refused a session refuses transactions."
  }
}

variable "backup_retention_days" {
  description = "How long backups are kept; on replicas, too, so that a promoted one has them from the first moment."
  type        = number
  default     = 14

  validation {
    condition     = var.backup_retention_days >= 1 && var.backup_retention_days <= 35
    error_message = "Must be 1 to 35: RDS makes no replicas without backups."
  }
}

variable "windows" {
  description = "Weekly window of maintenance and daily one of backups, in UTC. No two regions should have the same."
  type        = object({ maintenance = string, backup = string })
  default     = { maintenance = "sun:03:00-sun:04:00", backup = "01:00-02:00" }

  validation {
    condition     = can(regex("^(mon|tue|wed|thu|fri|sat|sun):[0-2][0-9]:[0-5][0-9]-(mon|tue|wed|thu|fri|sat|sun):[0-2][0-9]:[0-5][0-9]$", var.windows.maintenance)) && can(regex("^[0-2][0-9]:[0-5][0-9]-[0-2][0-9]:[0-5][0-9]$", var.windows.backup))
    error_message = "Must be as RDS writes them: sun:03:00-sun:04:00 for maintenance, 01:00-02:00 for backups."
  }
}

variable "deletion_protection" {
  description = "Whether the node refuses to be deleted. False only for systems that are thrown away."
  type        = bool
  default     = true
}

variable "alarm_topic_arns" {
  description = "SNS topics that alarms are sent to."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for arn in var.alarm_topic_arns : can(regex("^arn:[^:]+:sns:${var.region}:", arn))])
    error_message = "Each must be the ARN of an SNS topic of this region: alarms send to no other."
  }
}

variable "replica_lag_alarm_s" {
  description = "Replay lag of a replica above which an alarm is raised. A level that counts the node waits at least as long."
  type        = number
  default     = 30

  validation {
    condition     = var.replica_lag_alarm_s >= 1
    error_message = "Must be at least one second."
  }
}
