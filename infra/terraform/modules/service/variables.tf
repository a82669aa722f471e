variable "name" {
  description = "Name of the system and the region; the beginning of all names, such as `highwater-us-east-1`."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,39}$", var.name))
    error_message = "Must be 2 to 40 lower-case letters, digits or '-', beginning with a letter."
  }
}

variable "region" {
  description = "The region, by its name in the topology and at AWS."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]+$", var.region))
    error_message = "Must be the name of an AWS region, such as us-east-1."
  }
}

variable "topology_json" {
  description = "`topology_json` of `topology`."
  type        = string

  validation {
    condition     = try(length(jsondecode(var.topology_json).nodes) > 0 && length(jsondecode(var.topology_json).levels) > 0, false)
    error_message = "Must be a topology with nodes and levels, as JSON."
  }
  validation {
    condition     = !can(regex("postgres(ql)?://[^/@:\"]*:[^/@\"]*@", var.topology_json))
    error_message = "The topology must hold no password: it is in the definition of every task. Passwords come from secrets."
  }
}

variable "slots" {
  description = "This region's entry in the output `regions` of the module `topology`."
  type = object({
    gateways     = list(object({ name = string, address = string, port = number, postgres_port = optional(number), postgres_read_port = optional(number), burst = number }))
    trackers     = list(object({ name = string, address = string, port = number, burst = number }))
    tracker_urls = list(string)
    edge_regions = list(object({
      name     = string
      gateways = list(object({ name = string, address = string, port = number, postgresPort = optional(number), postgresReadPort = optional(number) }))
      trackers = list(object({ name = string, address = string, port = number }))
    }))
  })

  validation {
    condition     = try(var.slots.edge_regions[0].name == var.region, false)
    error_message = "The slots belong to another region."
  }
}

variable "gateway_count" {
  description = "Gateways of all regions, from `topology`."
  type        = number

  validation {
    condition     = var.gateway_count >= length(var.slots.gateways) && floor(var.gateway_count) == var.gateway_count
    error_message = "Must count the gateways of all regions, so it cannot be lower than the number in this region."
  }
}

variable "domain" {
  description = "Private domain of the services, from `topology`."
  type        = string

  validation {
    condition     = can(regex("^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]{2,63}$", var.domain))
    error_message = "Must be a domain of at least two labels, in lower case."
  }
}

variable "network" {
  description = "Of the region's `network`: `vpc_id`, `service_subnet_ids`, `ranges`, `endpoint_security_group_id`, `s3_prefix_list_id`."
  type = object({
    vpc_id                     = string
    service_subnet_ids         = map(string)
    ranges                     = object({ services = string })
    endpoint_security_group_id = string
    s3_prefix_list_id          = string
  })

  validation {
    condition     = length(var.network.service_subnet_ids) >= 2
    error_message = "Must have subnets in at least two zones."
  }
}

variable "peer_ranges" {
  description = "By other region, `ranges` of its `network`: its services and edges talk to these services, and these to its database."
  type        = map(object({ services = string, databases = string }))
  default     = {}

  validation {
    condition = !contains(keys(var.peer_ranges), var.region) && alltrue(flatten([
      for ranges in values(var.peer_ranges) : [for cidr in values(ranges) : can(cidrhost(cidr, 0)) && try(tonumber(split("/", cidr)[1]) >= 18, false)]
    ]))
    error_message = "Ranges of the other regions' subnets, not of the region itself, and none wider than /18."
  }
}

variable "database_security_group_ids" {
  description = "By node, the group of the region's database, from `store-rds-postgres`; empty where there is none."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for id in values(var.database_security_group_ids) : startswith(id, "sg-")])
    error_message = "Each must be the id of a security group."
  }
}

variable "load_balancer_security_group_id" {
  description = "Group of the load balancer in front of the region's edges, from `edge`."
  type        = string

  validation {
    condition     = startswith(var.load_balancer_security_group_id, "sg-")
    error_message = "Must be the id of a security group."
  }
}

variable "operator_security_group_ids" {
  description = "By a name, groups of this region from which operators ask services and edges themselves: `/metrics`, `/healthz`, `/readyz`. The collectors need none: they run beside the services."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for id in values(var.operator_security_group_ids) : startswith(id, "sg-")])
    error_message = "Each must be the id of a security group."
  }
}

variable "internet_egress" {
  description = "Whether trackers may send webhooks to the internet and gateways read key sets there; the network must have the way out, too."
  type        = bool
  default     = false
}

variable "images" {
  description = "Images in a registry of this region: `service` (the Dockerfile of this repository), `envoy` and, for telemetry, `collector` (AWS Distro for OpenTelemetry). By digest: a tag can mean something else tomorrow."
  type        = object({ service = string, envoy = string, collector = optional(string) })

  validation {
    condition = alltrue([
      for image in values(var.images) : image == null ? true : can(regex("^[a-z0-9.-]+(:[0-9]+)?/[a-z0-9._/-]+@sha256:[0-9a-f]{64}$", image))
    ])
    error_message = "Each image must be REGISTRY/NAME@sha256:DIGEST."
  }
}

variable "architecture" {
  description = "Processor of the tasks, that of the images."
  type        = string
  default     = "X86_64"

  validation {
    condition     = contains(["X86_64", "ARM64"], var.architecture)
    error_message = "Must be X86_64 or ARM64. (Only X86_64 has been tested.)"
  }
}

variable "deployment" {
  description = "Name of the whole system, the same in all regions: `HIGHWATER_DEPLOYMENT`. It is part of every receipt's tag and every token, so it stays what it was."
  type        = string

  validation {
    condition     = can(regex("^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$", var.deployment))
    error_message = "Must be 1 to 40 letters, digits, '.', '_' or '-', beginning with a letter or digit."
  }
}

variable "secret_arns" {
  description = "ARNs of this region's copies of the secrets, from `secrets`: `service`, `deployment`, `gateways` and `tls`."
  type        = object({ service = string, deployment = string, gateways = string, tls = string })

  validation {
    condition     = alltrue([for arn in values(var.secret_arns) : can(regex("^arn:[^:]+:secretsmanager:${var.region}:", arn))])
    error_message = "Each must be the ARN of a secret of this region: a copy elsewhere would be lost with that region."
  }
}

variable "kms_key_arn" {
  description = "Key of this region, for secrets and logs."
  type        = string

  validation {
    condition     = can(regex("^arn:[^:]+:kms:${var.region}:", var.kms_key_arn))
    error_message = "Must be the ARN of a KMS key of this region."
  }
}

variable "sizes" {
  description = "vCPU units and MiB of one task of each kind, as Fargate combines them."
  type = object({
    gateway = object({ cpu = number, memory = number })
    tracker = object({ cpu = number, memory = number })
    edge    = object({ cpu = number, memory = number })
  })
  default = {
    gateway = { cpu = 2048, memory = 4096 }
    tracker = { cpu = 1024, memory = 4096 }
    edge    = { cpu = 1024, memory = 2048 }
  }

  validation {
    condition     = alltrue([for size in values(var.sizes) : contains([256, 512, 1024, 2048, 4096, 8192, 16384], size.cpu) && size.memory >= size.cpu * 2 && size.memory <= size.cpu * 8])
    error_message = "CPU must be a power of two from 256 to 16384, and memory two to eight times as much: Fargate allows nothing else."
  }
}

variable "edges" {
  description = "How many edges (Envoy) run in the region, at least and at most."
  type        = object({ min = number, max = number })
  default     = { min = 2, max = 6 }

  validation {
    condition     = var.edges.min >= 2 && var.edges.max >= var.edges.min
    error_message = "Must be at least two, because one may be in the zone that fails."
  }
}

variable "authority" {
  description = "The authority that names the primary: `operator` (only an operator's command) or `ancestry` (a promoted node whose history contains the old one's is followed at once); see docs/reference/authority.md."
  type        = string
  default     = "operator"

  validation {
    condition     = contains(["operator", "ancestry"], var.authority)
    error_message = "Must be operator or ancestry: RDS has no lease to read."
  }
}

variable "exposure_level" {
  description = "Level below which a transaction counts as exposed; a level of the topology."
  type        = string
  default     = "region"

  validation {
    condition     = contains(keys(try(jsondecode(var.topology_json).levels, {})), var.exposure_level)
    error_message = "The topology has no such level."
  }
}

variable "pools" {
  description = "Database sessions of one gateway to each node: of the service's own role, and of each login role of keys (`role`, for `roles` of them)."
  type        = object({ service = number, role = number, roles = number })
  default     = { service = 16, role = 8, roles = 4 }

  validation {
    condition     = var.pools.service >= 1 && var.pools.service <= 1000 && var.pools.role >= 1 && var.pools.role <= 1000 && var.pools.roles >= 0
    error_message = "Pools must have 1 to 1000 sessions."
  }
}

variable "postgres_sessions" {
  description = "Sessions of PostgreSQL clients that one gateway takes, on both ports together; more are refused. Each has a session at a node, and all may be at one node."
  type        = number
  default     = 80

  validation {
    condition     = var.postgres_sessions >= 1 && var.postgres_sessions <= 10000 && floor(var.postgres_sessions) == var.postgres_sessions
    error_message = "Must be 1 to 10000."
  }
}

variable "environment" {
  description = "Further settings of gateways and trackers (docs/reference/gateway-config.md and tracker-config.md), by variable."
  type        = object({ gateway = optional(map(string), {}), tracker = optional(map(string), {}) })
  default     = {}

  validation {
    condition = length(setintersection(
      concat(keys(var.environment.gateway), keys(var.environment.tracker)),
      [
        "GATEWAY_NAME", "GATEWAY_REGION", "GATEWAY_HOST", "GATEWAY_PORT", "GATEWAY_PG_PORT", "GATEWAY_PG_READ_PORT", "GATEWAY_PG_PROXIES", "GATEWAY_PG_MAX_CONNECTIONS", "GATEWAY_PEERS", "GATEWAY_TRACKERS", "GATEWAY_AUTH", "GATEWAY_ADDRESS_HEADER", "GATEWAY_POOL_SIZE", "GATEWAY_ROLE_POOL_SIZE",
        "GATEWAY_EXPOSURE_LEVEL", "GATEWAY_EXPOSURE_GATEWAYS", "GATEWAY_ROLE_PASSWORDS",
        "TRACKER_NAME", "TRACKER_REGION", "TRACKER_HOST", "TRACKER_PORT", "TRACKER_LEDGER", "TRACKER_AUTH", "TRACKER_ADDRESS_HEADER", "TRACKER_EXPOSURE_LEVEL", "TRACKER_GATEWAYS",
        "HIGHWATER_TOPOLOGY", "HIGHWATER_AUTHORITY", "HIGHWATER_DEPLOYMENT", "HIGHWATER_DEPLOYMENT_KEYS", "HIGHWATER_INTERNAL_SECRET", "HIGHWATER_TLS_CERTIFICATE", "HIGHWATER_TLS_KEY", "HIGHWATER_TLS_CA", "PGPASSWORD", "NODE_EXTRA_CA_CERTS",
      ],
    )) == 0
    error_message = "The module sets one of these variables itself; use the module's own variable for it."
  }
  validation {
    condition = alltrue([
      for name in concat(keys(var.environment.gateway), keys(var.environment.tracker)) : !can(regex("SECRET|PASSWORD", name))
    ])
    error_message = "A secret must not be in the definition of a task."
  }
  validation {
    condition     = lookup(var.environment.gateway, "HIGHWATER_RETENTION_MS", "") == lookup(var.environment.tracker, "HIGHWATER_RETENTION_MS", "")
    error_message = "HIGHWATER_RETENTION_MS must be the same for gateways and trackers."
  }
}

variable "metrics_workspaces" {
  description = "By region, a workspace of Amazon Managed Service for Prometheus to which collectors write, from `observability`: its ARN and remote-write URL. All regions' collectors write to all of them. Empty: only what scaling needs is kept, in CloudWatch."
  type        = map(object({ arn = string, remote_write_url = string }))
  default     = {}

  validation {
    condition     = alltrue([for region, workspace in var.metrics_workspaces : can(regex("^arn:[^:]+:aps:${region}:[0-9]{12}:workspace/", workspace.arn)) && can(regex("^https://.*/api/v1/remote_write$", workspace.remote_write_url))])
    error_message = "Each must have the ARN of a workspace of its region, and its address for remote writes."
  }
  validation {
    condition     = length(setsubtract(keys(var.metrics_workspaces), concat([var.region], keys(var.peer_ranges)))) == 0
    error_message = "A workspace elsewhere is reached over the peering with its region: that must be in peer_ranges."
  }
}

variable "scaling" {
  description = "When burst slots join: average CPU of the gateways in percent, transactions that wait for a session in one gateway, streams of marks in one tracker."
  type        = object({ gateway_cpu_percent = number, gateway_queue = number, tracker_streams = number })
  default     = { gateway_cpu_percent = 60, gateway_queue = 50, tracker_streams = 10000 }

  validation {
    condition     = var.scaling.gateway_cpu_percent > 0 && var.scaling.gateway_cpu_percent <= 90 && var.scaling.gateway_queue >= 1 && var.scaling.tracker_streams >= 1
    error_message = "CPU 1 to 90 percent; queue and streams at least 1."
  }
}

variable "log_retention_days" {
  description = "How long logs of the services are kept."
  type        = number
  default     = 365

  validation {
    condition     = contains([30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653], var.log_retention_days)
    error_message = "Must be a period that CloudWatch Logs knows, of at least 30 days."
  }
}

variable "wait_for_steady_state" {
  description = "Whether a change waits until each half of the slots is healthy before it goes on to the other; false only against a stand-in for AWS, which runs no tasks."
  type        = bool
  default     = true
}

variable "alarm_topic_arns" {
  description = "SNS topics of this region that alarms are sent to, from `notifications`."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for arn in var.alarm_topic_arns : can(regex("^arn:[^:]+:sns:${var.region}:", arn))])
    error_message = "Must be ARNs of topics of this region."
  }
}

variable "setup" {
  description = "In the region of the first primary: what the task that makes the database's roles needs; the master user's connection string without its password, and the ARN of the secret that holds it. Null elsewhere."
  type        = object({ url = string, master_secret_arn = string })
  default     = null

  validation {
    condition     = var.setup == null ? true : can(regex("^arn:[^:]+:secretsmanager:${var.region}:", var.setup.master_secret_arn))
    error_message = "The master's secret must be the copy of this region."
  }
}
