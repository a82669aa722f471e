mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::111122223333:role/one" }
  }
  mock_resource "aws_service_discovery_service" {
    defaults = { arn = "arn:aws:servicediscovery:us-east-1:111122223333:service/srv-1" }
  }
  mock_resource "aws_ecs_task_definition" {
    defaults = { arn = "arn:aws:ecs:us-east-1:111122223333:task-definition/one:1" }
  }
  mock_resource "aws_lb_target_group" {
    defaults = { arn = "arn:aws:elasticloadbalancing:us-east-1:111122223333:targetgroup/one/1" }
  }
  mock_resource "aws_appautoscaling_policy" {
    defaults = { arn = "arn:aws:autoscaling:us-east-1:111122223333:scalingPolicy:1" }
  }
}

variables {
  name          = "highwater-us-east-1"
  region        = "us-east-1"
  deployment    = "highwater"
  topology_json = "{\"nodes\":[{\"id\":\"us-east-1\",\"region\":\"us-east-1\",\"zone\":\"multi-az\",\"url\":\"postgresql://highwater_service@east.example.com:5432/app?sslmode=verify-full\"}],\"levels\":{\"disk\":{\"primary\":true},\"region\":{\"replicas\":1,\"outside\":\"region\"}}}"
  slots = {
    gateways = [
      { name = "us-east-1-gateway-1", address = "gateway-1.us-east-1.highwater.internal", port = 4600, burst = 0 },
      { name = "us-east-1-gateway-2", address = "gateway-2.us-east-1.highwater.internal", port = 4600, burst = 0 },
      { name = "us-east-1-gateway-3", address = "gateway-3.us-east-1.highwater.internal", port = 4600, burst = 1 },
      { name = "us-east-1-gateway-4", address = "gateway-4.us-east-1.highwater.internal", port = 4600, burst = 2 },
    ]
    trackers = [
      { name = "us-east-1-tracker-1", address = "tracker-1.us-east-1.highwater.internal", port = 4601, burst = 0 },
      { name = "us-east-1-tracker-2", address = "tracker-2.us-east-1.highwater.internal", port = 4601, burst = 0 },
    ]
    tracker_urls = ["https://tracker-1.us-east-1.highwater.internal:4601", "https://tracker-2.us-east-1.highwater.internal:4601"]
    edge_regions = [{
      name     = "us-east-1"
      gateways = [{ name = "us-east-1-gateway-1", address = "gateway-1.us-east-1.highwater.internal", port = 4600 }]
      trackers = [{ name = "us-east-1-tracker-1", address = "tracker-1.us-east-1.highwater.internal", port = 4601 }]
    }]
  }
  gateway_count = 6
  domain        = "highwater.internal"
  network = {
    vpc_id                     = "vpc-1"
    service_subnet_ids         = { us-east-1a = "subnet-1", us-east-1b = "subnet-2", us-east-1c = "subnet-3" }
    ranges                     = { services = "10.10.64.0/18", databases = "10.10.128.0/18" }
    endpoint_security_group_id = "sg-1"
    s3_prefix_list_id          = "pl-1"
  }
  peer_ranges                     = { us-west-2 = { services = "10.20.64.0/18", databases = "10.20.128.0/18" } }
  database_security_group_ids     = { us-east-1 = "sg-database" }
  load_balancer_security_group_id = "sg-balancer"
  operator_security_group_ids     = { bastion = "sg-operators" }
  images = {
    service   = "111122223333.dkr.ecr.us-east-1.amazonaws.com/highwater@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    envoy     = "111122223333.dkr.ecr.us-east-1.amazonaws.com/envoy@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    collector = "111122223333.dkr.ecr.us-east-1.amazonaws.com/collector@sha256:0000000000000000000000000000000000000000000000000000000000000000"
  }
  secret_arns = {
    service    = "arn:aws:secretsmanager:us-east-1:111122223333:secret:highwater/service-AbCdEf"
    deployment = "arn:aws:secretsmanager:us-east-1:111122223333:secret:highwater/deployment-AbCdEf"
    gateways   = "arn:aws:secretsmanager:us-east-1:111122223333:secret:highwater/gateways-AbCdEf"
    tls        = "arn:aws:secretsmanager:us-east-1:111122223333:secret:highwater/tls-AbCdEf"
  }
  kms_key_arn = "arn:aws:kms:us-east-1:111122223333:key/0"
  metrics_workspaces = {
    us-east-1 = { arn = "arn:aws:aps:us-east-1:111122223333:workspace/ws-1", remote_write_url = "https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-1/api/v1/remote_write" }
    us-west-2 = { arn = "arn:aws:aps:us-west-2:111122223333:workspace/ws-2", remote_write_url = "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-2/api/v1/remote_write" }
  }
  alarm_topic_arns = ["arn:aws:sns:us-east-1:111122223333:highwater-us-east-1-notifications"]
}

run "tasks" {
  command = apply

  assert {
    condition     = length(aws_ecs_service.first) == 2 && length(aws_ecs_service.second) == 2 && length(aws_ecs_service.burst) == 2
    error_message = "Each wave must have half of the gateways and trackers, and burst slots must join only under load."
  }
  assert {
    condition     = alltrue([for service in concat(values(aws_ecs_service.first), values(aws_ecs_service.second)) : service.deployment_maximum_percent == 100 && service.desired_count == 1])
    error_message = "Two tasks with one name must never run at the same time."
  }
  assert {
    condition     = alltrue([for service in concat(values(aws_ecs_service.first), values(aws_ecs_service.second), [aws_ecs_service.edge]) : service.network_configuration[0].assign_public_ip == false])
    error_message = "No task may have a public address."
  }
  assert {
    condition     = aws_ecs_service.first["us-east-1-gateway-1"].network_configuration[0].subnets != aws_ecs_service.second["us-east-1-gateway-2"].network_configuration[0].subnets
    error_message = "The slots must be spread over the zones."
  }
  assert {
    condition     = jsondecode(aws_ecs_task_definition.slot["us-east-1-gateway-1"].container_definitions)[0].readonlyRootFilesystem && jsondecode(aws_ecs_task_definition.slot["us-east-1-gateway-1"].container_definitions)[0].user == "1000"
    error_message = "A service must not run as root, and must write only to its volumes."
  }
  assert {
    condition     = strcontains(jsondecode(aws_ecs_task_definition.slot["us-east-1-tracker-1"].container_definitions)[0].healthCheck.command[3], "port: 4601, path: '/healthz'")
    error_message = "ECS must restart a task only if its process does not answer."
  }
  assert {
    condition     = toset([for secret in jsondecode(aws_ecs_task_definition.slot["us-east-1-tracker-1"].container_definitions)[0].secrets : secret.name]) == toset(["PGPASSWORD", "HIGHWATER_INTERNAL_SECRET", "HIGHWATER_DEPLOYMENT_KEYS", "HIGHWATER_TLS_CERTIFICATE", "HIGHWATER_TLS_KEY", "HIGHWATER_TLS_CA"])
    error_message = "A tracker must get the secrets that it needs."
  }
  assert {
    condition = (
      output.edge_source.serviceAuthority == "/etc/highwater-edge/authority.pem" && aws_lb_target_group.edge.protocol == "HTTPS" &&
      toset([for secret in jsondecode(aws_ecs_task_definition.edge.container_definitions)[0].secrets : secret.name]) == toset(["HIGHWATER_TLS_CERTIFICATE", "HIGHWATER_TLS_KEY", "HIGHWATER_TLS_CA"]) &&
      alltrue([for kind in ["gateway", "tracker", "edge"] : contains(local.readable[kind], var.secret_arns.tls)])
    )
    error_message = "The load balancer must use TLS to an edge, and an edge to services."
  }
  assert {
    condition     = length(jsondecode(aws_ecs_task_definition.slot["us-east-1-tracker-1"].container_definitions)) == 2
    error_message = "A collector must run beside each service."
  }
  assert {
    condition = alltrue([
      for name, definition in aws_ecs_task_definition.slot :
      jsondecode(definition.container_definitions)[1].environment[0].value == output.collectors[name] && !jsondecode(definition.container_definitions)[1].essential
    ])
    error_message = "Each collector must have its own slot's configuration, and a service must run without its collector."
  }
  assert {
    condition     = alltrue([for environment in values(output.environments) : environment.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT == "http://127.0.0.1:4318/v1/traces"])
    error_message = "Services must send their traces to the collector."
  }
  assert {
    condition     = join(" ", keys(aws_vpc_security_group_egress_rule.workspaces)) == "us-west-2" && aws_vpc_security_group_egress_rule.workspaces["us-west-2"].cidr_ipv4 == "10.20.64.0/18"
    error_message = "Collectors must reach the workspace of the other region."
  }
  assert {
    condition     = length(aws_cloudwatch_metric_alarm.running) == 4 && alltrue([for alarm in values(aws_cloudwatch_metric_alarm.running) : contains(alarm.alarm_actions, var.alarm_topic_arns[0])])
    error_message = "There must be an alarm for a permanent slot that does not run, and none for burst slots."
  }
  assert {
    condition     = output.environments["us-east-1-gateway-2"].GATEWAY_NAME == "us-east-1-gateway-2" && output.environments["us-east-1-gateway-2"].GATEWAY_AUTH == "keys"
    error_message = "Each gateway must have its own name and authenticate callers."
  }
  assert {
    condition     = aws_lb_target_group.edge.health_check[0].path == "/readyz" && aws_lb_target_group.edge.health_check[0].port == "9901"
    error_message = "The load balancer's health check must ask whether the edge can serve."
  }
  assert {
    condition     = aws_ecs_service.edge.health_check_grace_period_seconds == 300
    error_message = "ECS must not replace an edge because gateways and trackers start at the same time."
  }
  assert {
    condition = (
      length(aws_vpc_security_group_egress_rule.internet) == 0 &&
      alltrue([for rule in aws_vpc_security_group_egress_rule.services : rule.referenced_security_group_id == aws_security_group.slots.id && rule.cidr_ipv4 == null]) &&
      alltrue([for rule in aws_vpc_security_group_egress_rule.services_peers : rule.cidr_ipv4 == "10.20.64.0/18"]) &&
      alltrue([for rule in aws_vpc_security_group_egress_rule.databases : rule.referenced_security_group_id == "sg-database" && rule.from_port == 5432]) &&
      alltrue([for rule in aws_vpc_security_group_egress_rule.databases_peers : rule.cidr_ipv4 == "10.20.128.0/18" && rule.from_port == 5432])
    )
    error_message = "Services may connect only to services and databases of the regions."
  }
  assert {
    condition = (
      toset([for rule in aws_vpc_security_group_ingress_rule.slots : rule.referenced_security_group_id]) == toset([aws_security_group.slots.id, aws_security_group.edge.id, "sg-operators"]) &&
      alltrue([for rule in aws_vpc_security_group_ingress_rule.slots : rule.cidr_ipv4 == null]) &&
      alltrue([for rule in aws_vpc_security_group_ingress_rule.slots_peers : rule.cidr_ipv4 == "10.20.64.0/18"])
    )
    error_message = "Only this region's services, edges and operators, and the task subnets of other regions, may reach a service."
  }
  assert {
    condition = (
      alltrue([for rule in aws_vpc_security_group_ingress_rule.edge : rule.referenced_security_group_id == "sg-balancer" && rule.cidr_ipv4 == null]) &&
      aws_vpc_security_group_ingress_rule.edge_operators["bastion"].referenced_security_group_id == "sg-operators" && aws_vpc_security_group_ingress_rule.edge_operators["bastion"].from_port == 9901
    )
    error_message = "Only the load balancer may send requests to an edge; operators may reach only its health and metrics."
  }
  assert {
    condition = alltrue([
      for environment in values(output.environments) : try(environment.GATEWAY_ADDRESS_HEADER, environment.TRACKER_ADDRESS_HEADER) == "x-envoy-external-address"
    ])
    error_message = "Refused credentials must count against the client's address, not the edge's."
  }
  assert {
    condition     = aws_cloudwatch_metric_alarm.burst["us-east-1-gateway-4/join"].evaluation_periods > aws_cloudwatch_metric_alarm.burst["us-east-1-gateway-3/join"].evaluation_periods && aws_cloudwatch_metric_alarm.burst["us-east-1-gateway-4/leave"].evaluation_periods < aws_cloudwatch_metric_alarm.burst["us-east-1-gateway-3/leave"].evaluation_periods
    error_message = "The last slot to join must be the first to leave."
  }
  assert {
    condition     = output.sessions_per_node == 4 * (2 * 16 + 8 * 4 + 4) + 2 * 10
    error_message = "The count of sessions must include burst slots."
  }
}

run "without_a_collector" {
  command = plan
  variables {
    images = {
      service = "registry.example.com/highwater@sha256:0000000000000000000000000000000000000000000000000000000000000000"
      envoy   = "registry.example.com/envoy@sha256:0000000000000000000000000000000000000000000000000000000000000000"
    }
  }

  assert {
    condition     = length(output.collectors) == 0 && alltrue([for environment in values(output.environments) : !contains(keys(environment), "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")])
    error_message = "Services must send no traces if there is no collector."
  }
}

run "with_the_set_up_of_roles" {
  command = plan
  variables {
    setup = {
      url               = "postgresql://highwater_admin@east.example.com:5432/app?sslmode=verify-full"
      master_secret_arn = "arn:aws:secretsmanager:us-east-1:111122223333:secret:highwater/master-AbCdEf"
    }
  }

  assert {
    condition     = length(aws_ecs_task_definition.setup) == 1 && contains(keys(aws_iam_role.execution), "setup")
    error_message = "The set-up must have its own task and role, and only that role may read the master's password."
  }
  assert {
    condition = {
      for secret in jsondecode(aws_ecs_task_definition.setup[0].container_definitions)[0].secrets : secret.name => secret.valueFrom
      } == {
      DATABASE_ROLES_APPLICATIONS = "arn:aws:secretsmanager:us-east-1:111122223333:secret:highwater/gateways-AbCdEf"
      DATABASE_ROLES_PASSWORD     = "arn:aws:secretsmanager:us-east-1:111122223333:secret:highwater/service-AbCdEf:PGPASSWORD::"
      PGPASSWORD                  = "arn:aws:secretsmanager:us-east-1:111122223333:secret:highwater/master-AbCdEf"
    }
    error_message = "The set-up must log in as the master, and give the services' role and the API keys' roles the passwords that gateways have."
  }
  assert {
    condition = alltrue([
      for secret in jsondecode(aws_ecs_task_definition.setup[0].container_definitions)[0].secrets :
      contains(local.readable.setup, join(":", slice(split(":", secret.valueFrom), 0, 7)))
    ])
    error_message = "The set-up's role must be able to read the task's secrets."
  }
}

run "an_image_by_tag" {
  command = plan
  variables {
    images = { service = "registry.example.com/highwater:latest", envoy = "registry.example.com/envoy:v1" }
  }
  expect_failures = [var.images]
}

run "a_password_in_the_topology" {
  command = plan
  variables {
    topology_json = "{\"nodes\":[{\"url\":\"postgresql://highwater_service:secret@east.example.com:5432/app\"}],\"levels\":{\"region\":{\"replicas\":1,\"outside\":\"region\"}}}"
  }
  expect_failures = [var.topology_json]
}

run "an_exposure_level_that_does_not_exist" {
  command = plan
  variables {
    exposure_level = "galaxy"
  }
  expect_failures = [var.exposure_level]
}

run "a_secret_of_another_region" {
  command = plan
  variables {
    secret_arns = {
      service    = "arn:aws:secretsmanager:us-west-2:111122223333:secret:highwater/service-AbCdEf"
      deployment = "arn:aws:secretsmanager:us-west-2:111122223333:secret:highwater/deployment-AbCdEf"
      gateways   = "arn:aws:secretsmanager:us-east-1:111122223333:secret:highwater/gateways-AbCdEf"
      tls        = "arn:aws:secretsmanager:us-east-1:111122223333:secret:highwater/tls-AbCdEf"
    }
  }
  expect_failures = [var.secret_arns]
}

run "a_setting_that_the_module_owns" {
  command = plan
  variables {
    environment = { gateway = { GATEWAY_AUTH = "none" } }
  }
  expect_failures = [var.environment]
}

run "a_secret_among_the_settings" {
  command = plan
  variables {
    environment = { tracker = { HIGHWATER_INTERNAL_SECRET_PREVIOUS = "0123456789abcdef" } }
  }
  expect_failures = [var.environment]
}

run "a_retention_of_gateways_alone" {
  command = plan
  variables {
    environment = { gateway = { HIGHWATER_RETENTION_MS = "1000" } }
  }
  expect_failures = [var.environment]
}

run "a_lease_that_nobody_holds" {
  command = plan
  variables {
    authority = "lease"
  }
  expect_failures = [var.authority]
}

run "everybody_as_a_peer" {
  command = plan
  variables {
    peer_ranges        = { world = { services = "0.0.0.0/0", databases = "10.20.128.0/18" } }
    metrics_workspaces = {}
  }
  expect_failures = [var.peer_ranges]
}

run "a_workspace_that_nobody_can_reach" {
  command = plan
  variables {
    metrics_workspaces = { eu-west-1 = { arn = "arn:aws:aps:eu-west-1:111122223333:workspace/ws-3", remote_write_url = "https://aps-workspaces.eu-west-1.amazonaws.com/workspaces/ws-3/api/v1/remote_write" } }
  }
  expect_failures = [var.metrics_workspaces]
}

run "a_workspace_under_another_regions_name" {
  command = plan
  variables {
    metrics_workspaces = { us-east-1 = { arn = "arn:aws:aps:us-west-2:111122223333:workspace/ws-2", remote_write_url = "https://aps-workspaces.us-west-2.amazonaws.com/workspaces/ws-2/api/v1/remote_write" } }
  }
  expect_failures = [var.metrics_workspaces]
}

run "no_postgresql_clients" {
  command = plan

  assert {
    condition = (
      length(output.postgres_target_group_arns) == 0 &&
      length(setintersection(["postgresPort", "postgresReadPort"], concat(keys(output.edge_source.listen), keys(output.edge_source.regions[0].gateways[0])))) == 0 &&
      length(setintersection(["GATEWAY_PG_PORT", "GATEWAY_PG_READ_PORT", "GATEWAY_PG_PROXIES", "GATEWAY_PG_MAX_CONNECTIONS", "GATEWAY_PEERS"], keys(output.environments["us-east-1-gateway-1"]))) == 0
    )
    error_message = "Without a port there must be no resources for PostgreSQL clients."
  }
}

run "too_many_postgresql_clients" {
  command = plan
  variables {
    postgres_sessions = 10001
  }
  expect_failures = [var.postgres_sessions]
}

run "postgresql_clients" {
  command = apply
  variables {
    slots = {
      gateways = [
        { name = "us-east-1-gateway-1", address = "gateway-1.us-east-1.highwater.internal", port = 4600, postgres_port = 4605, postgres_read_port = 4606, burst = 0 },
        { name = "us-east-1-gateway-2", address = "gateway-2.us-east-1.highwater.internal", port = 4600, postgres_port = 4605, postgres_read_port = 4606, burst = 0 },
      ]
      trackers     = [{ name = "us-east-1-tracker-1", address = "tracker-1.us-east-1.highwater.internal", port = 4601, burst = 0 }]
      tracker_urls = ["https://tracker-1.us-east-1.highwater.internal:4601"]
      edge_regions = [{
        name = "us-east-1"
        gateways = [
          { name = "us-east-1-gateway-1", address = "gateway-1.us-east-1.highwater.internal", port = 4600, postgresPort = 4605, postgresReadPort = 4606 },
          { name = "us-east-1-gateway-2", address = "gateway-2.us-east-1.highwater.internal", port = 4600, postgresPort = 4605, postgresReadPort = 4606 },
        ]
        trackers = [{ name = "us-east-1-tracker-1", address = "tracker-1.us-east-1.highwater.internal", port = 4601 }]
        }, {
        name     = "us-west-2"
        gateways = [{ name = "us-west-2-gateway-1", address = "gateway-1.us-west-2.highwater.internal", port = 4600, postgresPort = 4605, postgresReadPort = 4606 }]
        trackers = []
      }]
    }
    postgres_sessions = 70
  }

  assert {
    condition = (
      output.environments["us-east-1-gateway-2"].GATEWAY_PG_PORT == "4605" && output.environments["us-east-1-gateway-2"].GATEWAY_PG_READ_PORT == "4606" &&
      length(setintersection(["GATEWAY_PG_PORT", "GATEWAY_PG_READ_PORT", "GATEWAY_PG_PROXIES"], keys(output.environments["us-east-1-tracker-1"]))) == 0
    )
    error_message = "Every gateway must listen for PostgreSQL clients, and no tracker."
  }
  assert {
    condition = (
      output.environments["us-east-1-gateway-1"].GATEWAY_PEERS == "https://gateway-2.us-east-1.highwater.internal:4600,https://gateway-1.us-west-2.highwater.internal:4600" &&
      output.environments["us-east-1-gateway-2"].GATEWAY_PEERS == "https://gateway-1.us-east-1.highwater.internal:4600,https://gateway-1.us-west-2.highwater.internal:4600" &&
      !contains(keys(output.environments["us-east-1-tracker-1"]), "GATEWAY_PEERS")
    )
    error_message = "Each gateway must know all others of all regions."
  }
  assert {
    condition     = output.environments["us-east-1-gateway-1"].GATEWAY_PG_MAX_CONNECTIONS == "70" && output.sessions_per_node == 2 * (2 * 16 + 8 * 4 + 4 + 70) + 10
    error_message = "A gateway must take as many PostgreSQL clients as the module says, and the count of sessions must include them."
  }
  assert {
    condition     = toset(jsondecode(aws_ecs_task_definition.slot["us-east-1-gateway-1"].container_definitions)[0].portMappings[*].containerPort) == toset([4600, 4605, 4606])
    error_message = "All ports of the task must be reachable."
  }
  assert {
    condition = (
      output.environments["us-east-1-gateway-1"].GATEWAY_PG_PROXIES == "10.10.64.0/18,10.20.64.0/18" &&
      alltrue([for group in aws_lb_target_group.postgres : group.preserve_client_ip == "true"])
    )
    error_message = "The load balancer must keep clients' addresses, and gateways must take them from the edges of all regions."
  }
  assert {
    condition     = output.edge_source.listen.postgresPort == 5432 && output.edge_source.regions[0].gateways[0].postgresPort == 4605
    error_message = "The edge must forward PostgreSQL clients."
  }
  assert {
    condition     = output.edge_source.listen.postgresReadPort == 5433 && output.edge_source.regions[0].gateways[0].postgresReadPort == 4606
    error_message = "The edge must forward PostgreSQL clients that only read."
  }
  assert {
    condition = alltrue([for group in aws_lb_target_group.postgres : group.protocol == "TCP" && group.health_check[0].path == "/readyz" && group.health_check[0].port == "9901"]) && (
      toset([for target in aws_ecs_service.edge.load_balancer : target.container_port]) == toset([8080, 5432, 5433])
    )
    error_message = "The load balancer must forward bytes to the edges that can serve."
  }
  assert {
    condition     = aws_lb_target_group.postgres["reads"].name == "highwater-us-east-1-reads" && { for port, arn in output.postgres_target_group_arns : port => arn != null } == { "5432" = true, "5433" = true }
    error_message = "Each port must have a group of its own."
  }
  assert {
    condition = alltrue([for port in [4605, 4606] : (
      toset([for rule in values(aws_vpc_security_group_ingress_rule.slots) : rule.referenced_security_group_id if rule.from_port == port]) == toset([aws_security_group.edge.id]) &&
      toset([for rule in values(aws_vpc_security_group_egress_rule.services_peers) : rule.security_group_id if rule.from_port == port]) == toset([aws_security_group.edge.id])
    )])
    error_message = "Only edges may reach the gateways' PostgreSQL ports."
  }
  assert {
    condition = alltrue([for name, port in { postgres = 5432, reads = 5433 } : (
      aws_vpc_security_group_ingress_rule.edge[name].from_port == port && aws_vpc_security_group_ingress_rule.edge[name].referenced_security_group_id == var.load_balancer_security_group_id
    )])
    error_message = "Only the load balancer may reach the edge's PostgreSQL ports."
  }
}
