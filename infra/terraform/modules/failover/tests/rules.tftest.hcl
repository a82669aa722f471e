mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::111122223333:role/one" }
  }
  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:us-west-2:111122223333:one" }
  }
  mock_resource "aws_cloudwatch_log_group" {
    defaults = { arn = "arn:aws:logs:us-west-2:111122223333:log-group:one" }
  }
}

variables {
  name          = "highwater-us-west-2"
  account_id    = "111122223333"
  region        = "us-west-2"
  node          = "us-west-2"
  database      = { identifier = "highwater-us-west-2", retention_days = 14, window = "01:00-02:00" }
  topology_json = "{\"nodes\":[{\"id\":\"us-east-1\",\"region\":\"us-east-1\",\"zone\":\"multi-az\",\"url\":\"postgresql://highwater_service@east.example.com:5432/app?sslmode=verify-full\"},{\"id\":\"us-west-2\",\"region\":\"us-west-2\",\"zone\":\"multi-az\",\"url\":\"postgresql://highwater_service@west.example.com:5432/app?sslmode=verify-full\"}],\"levels\":{\"disk\":{\"primary\":true},\"region\":{\"replicas\":1,\"outside\":\"region\"}}}"
  fences = {
    us-east-1 = { region = "us-east-1", network_acl_id = "acl-1", subnet_ids = ["subnet-1", "subnet-2", "subnet-3"] }
  }
  slots = {
    gateways = [
      { name = "us-west-2-gateway-1", address = "gateway-1.us-west-2.highwater.internal", port = 4600, burst = 0 },
      { name = "us-west-2-gateway-2", address = "gateway-2.us-west-2.highwater.internal", port = 4600, burst = 1 },
    ]
    tracker_urls = ["https://tracker-1.us-west-2.highwater.internal:4601", "https://tracker-1.us-east-1.highwater.internal:4601"]
  }
  network           = { service_subnet_ids = { us-west-2a = "subnet-4", us-west-2b = "subnet-5", us-west-2c = "subnet-6" } }
  security_group_id = "sg-1"
  cluster_name      = "highwater-us-west-2"
  image             = "111122223333.dkr.ecr.us-west-2.amazonaws.com/highwater@sha256:0000000000000000000000000000000000000000000000000000000000000000"
  secret_arns = {
    service = "arn:aws:secretsmanager:us-west-2:111122223333:secret:highwater/service-AbCdEf"
    tls     = "arn:aws:secretsmanager:us-west-2:111122223333:secret:highwater/tls-AbCdEf"
  }
  kms_key_arn = "arn:aws:kms:us-west-2:111122223333:key/0"
  approval    = { approvers = ["arn:aws:iam::111122223333:role/operators", "arn:aws:iam::111122223333:user/ann"], minimum = 2 }
}

run "runbook" {
  command = apply

  assert {
    condition     = aws_ssm_document.this.document_type == "Automation" && jsondecode(aws_ssm_document.this.content).schemaVersion == "0.3" && jsondecode(aws_ssm_document.this.content).assumeRole == aws_iam_role.automation.arn
    error_message = "The document must be an automation and must run with its own role."
  }
  assert {
    condition     = [for step in jsondecode(aws_ssm_document.this.content).mainSteps : step.inputs.MinRequiredApprovals if step.action == "aws:approve"] == [2, 2]
    error_message = "The approval step must require the configured number of approvers."
  }
  assert {
    condition     = [for step in jsondecode(aws_ssm_document.this.content).mainSteps : step.inputs.DBInstanceIdentifier if try(step.inputs.Api, "") == "PromoteReadReplica"] == ["highwater-us-west-2"]
    error_message = "The document must promote this region's instance and no other."
  }
  assert {
    condition     = jsondecode(aws_ssm_document.this.content).parameters.OldPrimary.allowedValues == ["us-east-1"] && jsondecode(aws_ssm_document.this.content).parameters.AcceptLoss.default == "no" && jsondecode(aws_ssm_document.this.content).parameters.Fence.default == "cut-off"
    error_message = "AcceptLoss must default to `no` and Fence to `cut-off`, and OldPrimary must allow only the other nodes."
  }
  assert {
    condition     = length(jsondecode(aws_ssm_document.this.content).mainSteps) < 100 && length(aws_ssm_document.this.content) < 65536
    error_message = "The document must fit the limits of Systems Manager: 64 KiB and a hundred steps."
  }
  assert {
    condition     = jsondecode(aws_ecs_task_definition.this.container_definitions)[0].readonlyRootFilesystem && jsondecode(aws_ecs_task_definition.this.container_definitions)[0].user == "1000" && aws_ecs_task_definition.this.task_role_arn == null
    error_message = "A task must not run as root, must have a read-only file system, and must have no AWS permissions."
  }
  assert {
    condition     = toset([for secret in jsondecode(aws_ecs_task_definition.this.container_definitions)[0].secrets : secret.name]) == toset(["PGPASSWORD", "HIGHWATER_INTERNAL_SECRET", "HIGHWATER_TLS_CA"])
    error_message = "A task must get the secrets that it needs, and never the master's password."
  }
  assert {
    condition = strcontains(
      join(" ", [for step in jsondecode(aws_ssm_document.this.content).mainSteps : jsonencode(step.inputs) if step.name == "verifyStart"]),
      "https://gateway-1.us-west-2.highwater.internal:4600",
    )
    error_message = "The task must use TLS to ask gateways whether commits work again."
  }
  assert {
    condition     = jsondecode(aws_ecs_task_definition.this.container_definitions)[0].logConfiguration.options.mode == "blocking"
    error_message = "The log driver must not drop lines of a report."
  }
  assert {
    condition = toset(flatten([
      for statement in data.aws_iam_policy_document.automation.statement : [for resource in statement.resources : resource if resource == "*"]
      if statement.sid != "SeeFences"
    ])) == toset([])
    error_message = "Only actions that AWS cannot limit to a resource may be allowed on all resources."
  }
}

run "nobody_to_approve" {
  command = plan
  variables {
    approval = { approvers = [] }
  }
  expect_failures = [var.approval]
}

run "more_approvals_than_people" {
  command = plan
  variables {
    approval = { approvers = ["arn:aws:iam::111122223333:role/operators"], minimum = 2 }
  }
  expect_failures = [var.approval]
}

run "everybody_may_approve" {
  command = plan
  variables {
    approval = { approvers = ["*"] }
  }
  expect_failures = [var.approval]
}

run "itself_as_the_old_primary" {
  command = plan
  variables {
    fences = {
      us-west-2 = { region = "us-west-2", network_acl_id = "acl-1", subnet_ids = ["subnet-1"] }
    }
  }
  expect_failures = [var.fences]
}

run "a_node_without_a_fence" {
  command = plan
  variables {
    fences = {
      eu-west-1 = { region = "eu-west-1", network_acl_id = "acl-1", subnet_ids = ["subnet-1"] }
    }
  }
  expect_failures = [var.fences]
}

run "a_node_of_another_region" {
  command = plan
  variables {
    node = "us-east-1"
  }
  expect_failures = [var.node]
}

run "a_password_in_the_topology" {
  command = plan
  variables {
    topology_json = "{\"nodes\":[{\"id\":\"us-west-2\",\"region\":\"us-west-2\",\"url\":\"postgresql://highwater_service:secret@west.example.com:5432/app\"}],\"levels\":{}}"
  }
  expect_failures = [var.topology_json]
}

run "an_image_by_tag" {
  command = plan
  variables {
    image = "registry.example.com/highwater:latest"
  }
  expect_failures = [var.image]
}

run "a_secret_of_the_lost_region" {
  command = plan
  variables {
    secret_arns = {
      service = "arn:aws:secretsmanager:us-west-2:111122223333:secret:highwater/service-AbCdEf"
      tls     = "arn:aws:secretsmanager:us-east-1:111122223333:secret:highwater/tls-AbCdEf"
    }
  }
  expect_failures = [var.secret_arns]
}

run "no_backups" {
  command = plan
  variables {
    database = { identifier = "highwater-us-west-2", retention_days = 0, window = "01:00-02:00" }
  }
  expect_failures = [var.database]
}
