mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }
  mock_resource "aws_prometheus_workspace" {
    defaults = {
      arn                 = "arn:aws:aps:us-east-1:111122223333:workspace/ws-1"
      prometheus_endpoint = "https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-1/"
    }
  }
  mock_resource "aws_cloudwatch_log_group" {
    defaults = { arn = "arn:aws:logs:us-east-1:111122223333:log-group:/highwater-us-east-1/prometheus" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::111122223333:role/one" }
  }
  mock_resource "aws_grafana_workspace" {
    defaults = { endpoint = "g-1.grafana-workspace.us-east-1.amazonaws.com" }
  }
}

variables {
  name           = "highwater-us-east-1"
  region         = "us-east-1"
  account_id     = "111122223333"
  kms_key_arn    = "arn:aws:kms:us-east-1:111122223333:key/0"
  topic_arn      = "arn:aws:sns:us-east-1:111122223333:highwater-us-east-1-notifications"
  endpoint       = { dns_name = "vpce-1.aps-workspaces.us-east-1.vpce.amazonaws.com", zone_id = "Z1" }
  remote_vpc_ids = { us-west-2 = "vpc-2", eu-west-1 = "vpc-3" }
  rules = {
    recording = "groups: [{ name: r, rules: [{ record: a, expr: b }] }]"
    alerts    = "groups: [{ name: a, rules: [{ alert: A, expr: b, labels: { severity: page } }, { alert: B, expr: b, labels: { severity: info } }] }]"
  }
}

run "alerts_reach_the_topic" {
  command = apply

  assert {
    condition     = tomap({ for name, namespace in aws_prometheus_rule_group_namespace.this : name => namespace.data }) == tomap(var.rules)
    error_message = "The workspace must have every file of rules, unchanged."
  }
  assert {
    condition     = toset([for route in yamldecode(yamldecode(aws_prometheus_alert_manager_definition.this.definition).alertmanager_config).route.routes : route.match.severity]) == toset(["page", "ticket", "info"])
    error_message = "Every severity that a rule may have must have a route."
  }
  assert {
    condition = alltrue([
      for receiver in yamldecode(yamldecode(aws_prometheus_alert_manager_definition.this.definition).alertmanager_config).receivers :
      receiver.sns_configs[0].topic_arn == var.topic_arn && receiver.sns_configs[0].attributes.severity == receiver.name && receiver.sns_configs[0].sigv4.region == "us-east-1"
    ])
    error_message = "Alerts of each severity must go to the topic and name their severity."
  }
  assert {
    condition     = aws_prometheus_workspace.this.kms_key_arn == var.kms_key_arn && aws_cloudwatch_log_group.this.kms_key_id == var.kms_key_arn
    error_message = "Metrics and logs must be encrypted."
  }
  assert {
    condition     = alltrue([for alarm in values(aws_cloudwatch_metric_alarm.this) : contains(alarm.alarm_actions, var.topic_arn)])
    error_message = "There must be an alarm for alerts that cannot be delivered."
  }
  assert {
    condition     = aws_route53_zone.this[0].name == "aps-workspaces.us-east-1.amazonaws.com" && length(aws_route53_zone.this[0].vpc) == 2 && one(aws_route53_record.this[0].alias).name == var.endpoint.dns_name
    error_message = "In the other regions' networks the name must resolve to this region's endpoint."
  }
  assert {
    condition     = output.workspace.remote_write_url == "https://aps-workspaces.us-east-1.amazonaws.com/workspaces/ws-1/api/v1/remote_write"
    error_message = "Collectors must get the workspace's URL."
  }
  assert {
    condition     = length(aws_grafana_workspace.this) == 0 && output.grafana_url == null
    error_message = "Grafana must be off by default."
  }
}

run "no_rules" {
  command = plan
  variables {
    rules = {}
  }
  expect_failures = [var.rules]
}

run "a_file_without_groups" {
  command = plan
  variables {
    rules = { recording = "rules: []" }
  }
  expect_failures = [var.rules]
}

run "an_alert_that_goes_nowhere" {
  command = plan
  variables {
    rules = { alerts = "groups: [{ name: a, rules: [{ alert: A, expr: b, labels: { severity: urgent } }] }]" }
  }
  expect_failures = [var.rules]
}

run "with_grafana" {
  command = apply
  variables {
    grafana = { authentication = ["AWS_SSO"] }
  }

  assert {
    condition     = aws_grafana_workspace.this[0].role_arn == aws_iam_role.grafana[0].arn && output.grafana_url == "https://g-1.grafana-workspace.us-east-1.amazonaws.com"
    error_message = "Grafana must query the workspace with its own role."
  }
}

run "one_region_alone" {
  command = plan
  variables {
    endpoint       = null
    remote_vpc_ids = {}
  }

  assert {
    condition     = length(aws_route53_zone.this) == 0
    error_message = "No other source may be allowed."
  }
}

run "others_without_a_way_in" {
  command = plan
  variables {
    endpoint = null
  }
  expect_failures = [var.remote_vpc_ids]
}

run "itself_as_another_region" {
  command = plan
  variables {
    remote_vpc_ids = { us-east-1 = "vpc-1" }
  }
  expect_failures = [var.remote_vpc_ids]
}

run "a_topic_of_another_region" {
  command = plan
  variables {
    topic_arn = "arn:aws:sns:us-west-2:111122223333:highwater-us-west-2-notifications"
  }
  expect_failures = [var.topic_arn]
}

run "a_key_of_another_region" {
  command = plan
  variables {
    kms_key_arn = "arn:aws:kms:us-west-2:111122223333:key/0"
  }
  expect_failures = [var.kms_key_arn]
}

run "a_login_that_grafana_does_not_have" {
  command = plan
  variables {
    grafana = { authentication = ["password"] }
  }
  expect_failures = [var.grafana]
}

run "logs_for_a_week" {
  command = plan
  variables {
    log_retention_days = 7
  }
  expect_failures = [var.log_retention_days]
}
