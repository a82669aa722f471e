# The nodes, levels and slots that all services of a system share. The module creates no resource:
# other modules take its outputs, so that a topology that cannot work fails in the plan, before
# anything is created.

locals {
  # By hand: an object of Terraform's has its keys in the order of the alphabet, and the order of
  # the levels has a meaning.
  levels = join(",", [
    for level in var.levels : "${jsonencode(level.name)}:${jsonencode({ for key, value in level : key => value if key != "name" && value != null })}"
  ])
  nodes = [
    for node in var.nodes : merge(
      {
        id     = node.id
        region = node.region
        zone   = node.zone
        url    = "postgresql://${var.service_role}@${node.host}:${node.port}/${node.database}?sslmode=verify-full"
      },
      node.ask ? { replication = { ask = true } } : {},
    )
  ]

  slots = {
    for region, its in var.regions : region => {
      for kind, count in { gateway = its.gateways, tracker = its.trackers } : kind => [
        for index in range(count.base + count.burst) : {
          name    = "${region}-${kind}-${index + 1}"
          address = "${kind}-${index + 1}.${region}.${var.domain}"
          port    = var.ports[kind]
          # Only gateways have them.
          postgres_port      = kind == "gateway" ? var.ports.postgres : null
          postgres_read_port = kind == "gateway" ? var.ports.postgres_read : null
          # 0: runs always. Otherwise the place in the order in which slots join.
          burst = max(0, index + 1 - count.base)
        }
      ]
    }
  }
}

# As the services do at their start: it works, and is probably not meant.
check "regions_all_of_one" {
  assert {
    condition     = length(distinct(var.nodes[*].region)) > 1 || alltrue([for level in var.levels : level.regions == null])
    error_message = "A level asks for every region and there is only one: it covers no more than the primary's disk."
  }
}

# Losing a region must not take every tracker along that knows what was pending there.
check "trackers_in_two_regions" {
  assert {
    condition     = length(var.regions) > 1
    error_message = "All trackers are in one region: with it goes what only they knew of pending transactions."
  }
}
