variable "nodes" {
  description = "Database nodes of the system, as `store-rds-postgres` gives them in its output `node`. One server counts once."
  type = list(object({
    id       = string
    region   = string
    zone     = string
    host     = string
    port     = number
    database = string
    # True: the node is asked itself how far it has the primary's log. False: it streams with its id
    # as application name.
    ask = bool
  }))

  validation {
    condition     = length(var.nodes) >= 1 && length(var.nodes) <= 64
    error_message = "A system has 1 to 64 nodes."
  }
  validation {
    condition     = length(distinct(var.nodes[*].id)) == length(var.nodes)
    error_message = "Every node needs an id of its own."
  }
  validation {
    condition = alltrue([
      for node in var.nodes : can(regex("^[a-z0-9][a-z0-9_-]{0,62}$", node.id)) && can(regex("^[a-z0-9][a-z0-9_-]{0,62}$", node.region))
    ])
    error_message = "Ids and regions of nodes are 1 to 63 lower-case letters, digits, '-' or '_', beginning with a letter or digit."
  }
  validation {
    condition     = alltrue([for node in var.nodes : length(node.zone) >= 1 && length(node.zone) <= 63])
    error_message = "The zone of a node has 1 to 63 characters."
  }
  validation {
    condition     = alltrue([for node in var.nodes : contains(keys(var.regions), node.region)])
    error_message = "Every node must be in one of the regions."
  }
  validation {
    condition     = length(distinct([for node in var.nodes : "${node.host}:${node.port}/${node.database}"])) == length(var.nodes)
    error_message = "Two nodes have the same address: one server counts once."
  }
}

variable "levels" {
  description = <<-TEXT
    Durability levels, weakest first: a later level is stronger. Each has exactly one rule: `primary = true`;
    `replicas` and `outside` (`zone` or `region`); or `regions = "all"`. A level that the nodes can never reach fails the plan.
  TEXT
  type = list(object({
    name     = string
    primary  = optional(bool)
    replicas = optional(number)
    outside  = optional(string)
    regions  = optional(string)
  }))
  default = [
    { name = "disk", primary = true },
    { name = "region", replicas = 1, outside = "region" },
    { name = "global", regions = "all" },
  ]

  validation {
    condition     = length(var.levels) >= 1 && length(var.levels) <= 16
    error_message = "A system has 1 to 16 levels."
  }
  validation {
    condition     = length(distinct(var.levels[*].name)) == length(var.levels)
    error_message = "Every level needs a name of its own."
  }
  validation {
    condition = alltrue([
      for level in var.levels : can(regex("^[a-z0-9][a-z0-9_-]{0,62}$", level.name)) && !can(regex("^[0-9]+$", level.name))
    ])
    error_message = "Names of levels are 1 to 63 lower-case letters, digits, '-' or '_', and not digits only: those would lose their place in the order."
  }
  validation {
    condition = alltrue([
      for level in var.levels : (
        (level.primary == true ? 1 : 0) + (level.replicas != null ? 1 : 0) + (level.regions != null ? 1 : 0)
      ) == 1 && level.primary != false && (level.replicas != null) == (level.outside != null)
    ])
    error_message = "Each level has exactly one rule: primary = true, replicas with outside, or regions = \"all\"."
  }
  validation {
    condition = alltrue([
      for level in var.levels : (
        (level.regions == null ? true : level.regions == "all") &&
        (level.outside == null ? true : contains(["zone", "region"], level.outside)) &&
        (level.replicas == null ? true : level.replicas >= 1 && level.replicas <= 100 && floor(level.replicas) == level.replicas)
      )
    ])
    error_message = "regions can only be \"all\", outside \"zone\" or \"region\", replicas a whole number from 1 to 100."
  }
  # Whichever node is the primary, its own domain is one of all and does not count.
  validation {
    condition = alltrue([
      for level in var.levels : level.replicas == null ? true : level.replicas <= (
        level.outside == "region"
        ? length(distinct(var.nodes[*].region))
        : length(distinct([for node in var.nodes : "${node.region}/${node.zone}"]))
      ) - 1
    ])
    error_message = "A level can never be reached: its rule needs replicas in more regions (or zones) besides the primary's than the nodes have. Add regions or zones, or lower its replicas."
  }
}

variable "regions" {
  description = <<-TEXT
    Regions in which services run. `nearest` has all other regions, the nearest first. `gateways` and `trackers`: `base` run
    always, `burst` only under load. Each is a named slot, because open transactions are pinned to a gateway by its name.
  TEXT
  type = map(object({
    nearest  = list(string)
    gateways = object({ base = number, burst = number })
    trackers = object({ base = number, burst = number })
  }))

  validation {
    condition     = length(var.regions) >= 1 && length(var.regions) <= 32
    error_message = "A system has 1 to 32 regions."
  }
  validation {
    condition     = alltrue([for name in keys(var.regions) : can(regex("^[a-z0-9][a-z0-9-]{0,24}$", name))])
    error_message = "Names of regions are 1 to 25 lower-case letters, digits or '-': names of services begin with them, and have 40 characters at most."
  }
  validation {
    condition = alltrue([
      for name, region in var.regions : toset(region.nearest) == setsubtract(keys(var.regions), [name]) && length(distinct(region.nearest)) == length(region.nearest)
    ])
    error_message = "nearest must have every other region once, and not the region itself."
  }
  validation {
    condition = alltrue(flatten([
      for region in values(var.regions) : [
        for count in [region.gateways, region.trackers] :
        count.base >= 1 && count.burst >= 0 && count.base + count.burst <= 50 && floor(count.base) == count.base && floor(count.burst) == count.burst
      ]
    ]))
    error_message = "A region has at least one gateway and one tracker that always run, and at most 50 of each."
  }
  # A ledger on Fargate does not outlive its task: another tracker has to hold what it held
  # (docs/decisions/0072).
  validation {
    condition     = sum([for region in values(var.regions) : region.trackers.base]) >= 2
    error_message = "There must be at least two trackers that always run: the ledger of a task ends with the task."
  }
}

variable "domain" {
  description = "Private domain under which services find each other, such as `highwater.internal`."
  type        = string
  default     = "highwater.internal"

  validation {
    condition     = can(regex("^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]{2,63}$", var.domain)) && length(var.domain) <= 100
    error_message = "Must be a domain of at least two labels, in lower case."
  }
}

variable "service_role" {
  description = "Role of the database as which gateways and trackers log in; without a password, which comes from a secret."
  type        = string
  default     = "highwater_service"

  validation {
    condition     = can(regex("^[a-z_][a-z0-9_]{0,62}$", var.service_role))
    error_message = "Must be a plain name of a role: lower-case letters, digits and '_'."
  }
}

variable "ports" {
  description = "Ports on which gateways and trackers listen; `postgres`: where gateways take PostgreSQL clients, and `postgres_read`: those of them that only read; null for none."
  type        = object({ gateway = number, tracker = number, postgres = optional(number), postgres_read = optional(number) })
  default     = { gateway = 4600, tracker = 4601 }

  validation {
    condition     = alltrue([for port in values(var.ports) : port == null ? true : port >= 1024 && port <= 65535]) && length(distinct(compact(values(var.ports)))) == length(compact(values(var.ports)))
    error_message = "Different ports from 1024 to 65535: services do not run as root."
  }
}
