# What must fail at plan time, each beside a case that must not.

variables {
  regions = {
    us-east-1 = { nearest = ["us-west-2", "eu-west-1"], gateways = { base = 2, burst = 1 }, trackers = { base = 1, burst = 0 } }
    us-west-2 = { nearest = ["us-east-1", "eu-west-1"], gateways = { base = 1, burst = 0 }, trackers = { base = 1, burst = 0 } }
    eu-west-1 = { nearest = ["us-east-1", "us-west-2"], gateways = { base = 1, burst = 0 }, trackers = { base = 1, burst = 0 } }
  }
  nodes = [
    { id = "us-east-1", region = "us-east-1", zone = "a", host = "east.example.com", port = 5432, database = "app", ask = true },
    { id = "us-west-2", region = "us-west-2", zone = "a", host = "west.example.com", port = 5432, database = "app", ask = true },
    { id = "eu-west-1", region = "eu-west-1", zone = "a", host = "eu.example.com", port = 5432, database = "app", ask = true },
  ]
}

run "three_regions" {
  command = plan

  assert {
    condition     = endswith(output.topology_json, "\"levels\":{\"disk\":{\"primary\":true},\"region\":{\"outside\":\"region\",\"replicas\":1},\"global\":{\"regions\":\"all\"}}}")
    error_message = "The levels must be in their own order, weakest first: ${output.topology_json}"
  }
  assert {
    condition     = jsondecode(output.topology_json).nodes[0].url == "postgresql://highwater_service@east.example.com:5432/app?sslmode=verify-full"
    error_message = "The node's connection string must have no password and must verify the server's certificate."
  }
  assert {
    condition     = output.regions["us-west-2"].tracker_urls[0] == "https://tracker-1.us-west-2.highwater.internal:4601" && output.regions["us-west-2"].tracker_urls[1] == "https://tracker-1.us-east-1.highwater.internal:4601"
    error_message = "Trackers must be listed nearest first, with https URLs."
  }
  assert {
    condition     = output.regions["us-east-1"].edge_regions[*].name == ["us-east-1", "us-west-2", "eu-west-1"]
    error_message = "The edge's own region must come first."
  }
  assert {
    condition     = [for gateway in output.regions["us-east-1"].gateways : gateway.burst] == [0, 0, 1]
    error_message = "Burst slots must join one after the other."
  }
  assert {
    condition     = output.gateway_count == 5 && output.tracker_count == 3
    error_message = "The number of slots that may run must include burst slots."
  }
}

run "two_acknowledgements_of_three_regions_can_be_reached" {
  command = plan
  variables {
    levels = [{ name = "two", replicas = 2, outside = "region" }]
  }
}

run "three_acknowledgements_of_three_regions_cannot" {
  command = plan
  variables {
    levels = [{ name = "three", replicas = 3, outside = "region" }]
  }
  expect_failures = [var.levels]
}

run "one_region_cannot_reach_another" {
  command = plan
  variables {
    regions = { us-east-1 = { nearest = [], gateways = { base = 1, burst = 0 }, trackers = { base = 2, burst = 0 } } }
    nodes   = [{ id = "us-east-1", region = "us-east-1", zone = "a", host = "east.example.com", port = 5432, database = "app", ask = true }]
    levels  = [{ name = "disk", primary = true }, { name = "region", replicas = 1, outside = "region" }]
  }
  expect_failures = [var.levels, check.trackers_in_two_regions]
}

run "zones_of_two_regions_are_two" {
  command = plan
  variables {
    levels = [{ name = "zone", replicas = 2, outside = "zone" }]
  }
}

run "more_zones_than_there_are" {
  command = plan
  variables {
    levels = [{ name = "zone", replicas = 3, outside = "zone" }]
  }
  expect_failures = [var.levels]
}

run "all_regions_of_one_is_doubtful" {
  command = plan
  variables {
    regions = { us-east-1 = { nearest = [], gateways = { base = 1, burst = 0 }, trackers = { base = 2, burst = 0 } } }
    nodes   = [{ id = "us-east-1", region = "us-east-1", zone = "a", host = "east.example.com", port = 5432, database = "app", ask = true }]
    levels  = [{ name = "disk", primary = true }, { name = "global", regions = "all" }]
  }
  expect_failures = [check.regions_all_of_one, check.trackers_in_two_regions]
}

run "a_level_with_two_rules" {
  command = plan
  variables {
    levels = [{ name = "both", primary = true, regions = "all" }]
  }
  expect_failures = [var.levels]
}

run "a_level_without_a_rule" {
  command = plan
  variables {
    levels = [{ name = "none" }]
  }
  expect_failures = [var.levels]
}

run "replicas_without_outside" {
  command = plan
  variables {
    levels = [{ name = "half", replicas = 1 }]
  }
  expect_failures = [var.levels]
}

run "a_level_named_by_digits" {
  command = plan
  variables {
    levels = [{ name = "1", primary = true }]
  }
  expect_failures = [var.levels]
}

run "no_level_at_all" {
  command = plan
  variables {
    levels = []
  }
  expect_failures = [var.levels]
}

run "a_node_in_no_region" {
  command = plan
  variables {
    nodes  = [{ id = "elsewhere", region = "ap-south-1", zone = "a", host = "south.example.com", port = 5432, database = "app", ask = true }]
    levels = [{ name = "disk", primary = true }]
  }
  expect_failures = [var.nodes]
}

run "two_nodes_at_one_address" {
  command = plan
  variables {
    nodes = [
      { id = "one", region = "us-east-1", zone = "a", host = "same.example.com", port = 5432, database = "app", ask = true },
      { id = "two", region = "us-west-2", zone = "a", host = "same.example.com", port = 5432, database = "app", ask = true },
    ]
  }
  expect_failures = [var.nodes]
}

run "a_region_that_is_not_among_the_nearest" {
  command = plan
  variables {
    regions = {
      us-east-1 = { nearest = [], gateways = { base = 1, burst = 0 }, trackers = { base = 1, burst = 0 } }
      us-west-2 = { nearest = ["us-east-1"], gateways = { base = 1, burst = 0 }, trackers = { base = 1, burst = 0 } }
      eu-west-1 = { nearest = ["us-east-1", "us-west-2"], gateways = { base = 1, burst = 0 }, trackers = { base = 1, burst = 0 } }
    }
  }
  expect_failures = [var.regions]
}

run "one_tracker_in_all" {
  command = plan
  variables {
    regions = { us-east-1 = { nearest = [], gateways = { base = 1, burst = 0 }, trackers = { base = 1, burst = 0 } } }
    nodes   = [{ id = "us-east-1", region = "us-east-1", zone = "a", host = "east.example.com", port = 5432, database = "app", ask = true }]
    levels  = [{ name = "disk", primary = true }]
  }
  expect_failures = [var.regions]
}

run "ports_for_postgresql_clients" {
  command = plan
  variables {
    ports = { gateway = 4600, tracker = 4601, postgres = 4605, postgres_read = 4606 }
  }

  assert {
    condition     = alltrue([for gateway in output.regions["us-east-1"].edge_regions[1].gateways : gateway.postgresPort == 4605 && gateway.postgresReadPort == 4606])
    error_message = "Edges must have the PostgreSQL ports of every region's gateways."
  }
  assert {
    condition     = output.regions["us-east-1"].gateways[0].postgres_port == 4605 && output.regions["us-east-1"].trackers[0].postgres_port == null
    error_message = "Only gateways may have the PostgreSQL port."
  }
  assert {
    condition     = output.regions["us-east-1"].gateways[0].postgres_read_port == 4606 && output.regions["us-east-1"].trackers[0].postgres_read_port == null
    error_message = "Only gateways may have the port for reads."
  }
}

run "postgresql_clients_that_do_not_only_read" {
  command = plan
  variables {
    ports = { gateway = 4600, tracker = 4601, postgres = 4605 }
  }

  assert {
    condition     = alltrue([for gateway in output.regions["us-east-1"].edge_regions[1].gateways : gateway.postgresPort == 4605 && gateway.postgresReadPort == null])
    error_message = "The port for reads must be a choice of its own."
  }
}

run "one_port_for_two_protocols" {
  command = plan
  variables {
    ports = { gateway = 4600, tracker = 4601, postgres = 4600 }
  }
  expect_failures = [var.ports]
}

run "one_port_for_writes_and_reads" {
  command = plan
  variables {
    ports = { gateway = 4600, tracker = 4601, postgres = 4605, postgres_read = 4605 }
  }
  expect_failures = [var.ports]
}
