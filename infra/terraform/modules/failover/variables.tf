variable "name" {
  description = "Name of the system and the region; the beginning of all names, such as `highwater-us-west-2`."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,39}$", var.name))
    error_message = "Must be 2 to 40 lower-case letters, digits or '-', beginning with a letter."
  }
}

variable "account_id" {
  description = "The account."
  type        = string

  validation {
    condition     = can(regex("^[0-9]{12}$", var.account_id))
    error_message = "Must be the 12 digits of an account."
  }
}

variable "region" {
  description = "The region, by its name in the topology and at AWS: where the failover's tasks run, and whose node it promotes."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "Must be the name of an AWS region, such as us-east-1."
  }
}

variable "node" {
  description = "The node that may be promoted, by its id in the topology."
  type        = string

  validation {
    condition     = try(contains([for node in jsondecode(var.topology_json).nodes : node.id if node.region == var.region], var.node), false)
    error_message = "Must be a node of the topology, in this region."
  }
}

variable "database" {
  description = "The node's RDS instance: its identifier, and the backups that it is to have once it is a primary (`backup_retention_days` and the window of `store-rds-postgres`)."
  type        = object({ identifier = string, retention_days = number, window = string })

  validation {
    condition     = var.database.retention_days >= 1 && var.database.retention_days <= 35 && can(regex("^[0-2][0-9]:[0-5][0-9]-[0-2][0-9]:[0-5][0-9]$", var.database.window))
    error_message = "Must keep backups for 1 to 35 days, with a window such as 01:00-02:00: RDS makes no replicas without backups."
  }
}

variable "fences" {
  description = "By every other node, `fence` of its region's `network`."
  type        = map(object({ region = string, network_acl_id = string, subnet_ids = list(string) }))

  validation {
    condition     = length(var.fences) > 0 && !contains(keys(var.fences), var.node) && alltrue([for fence in values(var.fences) : fence.region != var.region && length(fence.subnet_ids) > 0])
    error_message = "Must have the fences of the other nodes, each in its own region, and none for this node."
  }
  validation {
    condition = try(length(setsubtract([
      for node in jsondecode(var.topology_json).nodes : node.id if node.id != var.node
    ], keys(var.fences))) == 0, false)
    error_message = "A node of the topology has no fence. If it were the old primary, the failover could not cut it off."
  }
}

variable "topology_json" {
  description = "`topology_json` of `topology`."
  type        = string

  validation {
    condition     = !can(regex("postgres(ql)?://[^/@:\"]*:[^/@\"]*@", var.topology_json))
    error_message = "The topology must hold no password: it is in the definition of the task."
  }
}

variable "slots" {
  description = "This region's entry in the output `regions` of the module `topology`."
  type = object({
    gateways     = list(object({ name = string, address = string, port = number, burst = number }))
    tracker_urls = list(string)
  })

  validation {
    condition     = length(var.slots.tracker_urls) > 0 && length([for slot in var.slots.gateways : slot if slot.burst == 0]) > 0
    error_message = "Must have a tracker, which names the node to promote, and a gateway, which confirms that commits work again."
  }
}

variable "network" {
  description = "Of the region's `network`: `service_subnet_ids`."
  type        = object({ service_subnet_ids = map(string) })

  validation {
    condition     = length(var.network.service_subnet_ids) > 0 && alltrue([for id in values(var.network.service_subnet_ids) : startswith(id, "subnet-")])
    error_message = "Must be the ids of the subnets for services, by zone."
  }
}

variable "security_group_id" {
  description = "Group of the region's services, of `service`: the failover's tasks talk to whom those talk to."
  type        = string

  validation {
    condition     = startswith(var.security_group_id, "sg-")
    error_message = "Must be the id of a security group."
  }
}

variable "cluster_name" {
  description = "ECS cluster of `service`."
  type        = string

  validation {
    condition     = can(regex("^[a-zA-Z0-9_-]{1,255}$", var.cluster_name))
    error_message = "Must be the name of an ECS cluster, not its ARN."
  }
}

variable "image" {
  description = "The service image, by digest."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9.-]+(:[0-9]+)?/[a-z0-9._/-]+@sha256:[0-9a-f]{64}$", var.image))
    error_message = "Must be REGISTRY/NAME@sha256:DIGEST."
  }
}

variable "architecture" {
  description = "Processor architecture of the task; must match the image."
  type        = string
  default     = "X86_64"

  validation {
    condition     = contains(["X86_64", "ARM64"], var.architecture)
    error_message = "Must be X86_64 or ARM64."
  }
}

variable "secret_arns" {
  description = "ARNs of this region's copies of the secrets, from `secrets`: `service` and `tls`."
  type        = object({ service = string, tls = string })

  validation {
    condition     = alltrue([for arn in values(var.secret_arns) : can(regex("^arn:[^:]+:secretsmanager:${var.region}:", arn))])
    error_message = "Each must be the ARN of a secret of this region: the others' may be lost."
  }
}

variable "kms_key_arn" {
  description = "Key of this region, for the secrets, the log and the topic."
  type        = string

  validation {
    condition     = can(regex("^arn:[^:]+:kms:${var.region}:", var.kms_key_arn))
    error_message = "Must be the ARN of a KMS key of this region."
  }
}

variable "approval" {
  description = "The ARNs of the IAM users and roles that may approve, how many of them must, for how many hours the failover waits for them, and who gets an e-mail when it waits."
  type        = object({ approvers = set(string), minimum = optional(number, 1), hours = optional(number, 24), emails = optional(set(string), []) })

  validation {
    condition     = length(var.approval.approvers) >= 1 && length(var.approval.approvers) <= 10 && alltrue([for arn in var.approval.approvers : can(regex("^arn:[^:]+:(iam|sts)::[0-9]{12}:(user|role|assumed-role)/.+$", arn))])
    error_message = "1 to 10 ARNs of IAM users or roles: a promotion needs a person's approval."
  }
  validation {
    condition     = var.approval.minimum >= 1 && var.approval.minimum <= length(var.approval.approvers) && floor(var.approval.minimum) == var.approval.minimum
    error_message = "At least one approval, and no more than there are approvers."
  }
  validation {
    condition     = var.approval.hours >= 1 && var.approval.hours <= 720
    error_message = "The wait for an approval must be 1 to 720 hours."
  }
}

variable "log_retention_days" {
  description = "How long the failover's log is kept; a run that is gone on with later needs it."
  type        = number
  default     = 365

  validation {
    condition     = contains([30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "Must be a period that CloudWatch Logs knows, of at least 30 days."
  }
}
