mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }
  mock_resource "aws_sns_topic" {
    defaults = { arn = "arn:aws:sns:us-east-1:111122223333:highwater-us-east-1-notifications" }
  }
}

variables {
  name        = "highwater-us-east-1"
  region      = "us-east-1"
  account_id  = "111122223333"
  kms_key_arn = "arn:aws:kms:us-east-1:111122223333:key/0"
  targets = {
    oncall  = { protocol = "https", endpoint = "https://events.example.com/integration/0/enqueue", severities = ["page"] }
    team    = { protocol = "email", endpoint = "database-team@example.com" }
    archive = { protocol = "lambda", endpoint = "arn:aws:lambda:us-east-1:111122223333:function:archive", severities = ["page", "ticket", "info"] }
  }
}

run "who_is_told_what" {
  command = apply

  assert {
    condition     = aws_sns_topic.this.kms_master_key_id == var.kms_key_arn
    error_message = "The topic must be encrypted."
  }
  assert {
    condition     = jsondecode(aws_sns_topic_subscription.this["oncall"].filter_policy).severity == ["page", { exists = false }]
    error_message = "The on-call address must get pages, and also alarms, which have no severity."
  }
  assert {
    condition     = jsondecode(aws_sns_topic_subscription.this["team"].filter_policy).severity == ["page", "ticket", { exists = false }]
    error_message = "Only subscribers of `info` may get notices that need no action."
  }
  assert {
    condition     = join(" ", keys(aws_lambda_permission.this)) == "archive" && aws_lambda_permission.this["archive"].source_arn == aws_sns_topic.this.arn
    error_message = "Only this topic may call the function."
  }
}

run "nobody" {
  command = plan
  variables {
    targets = {}
  }

  assert {
    condition     = length(aws_sns_topic_subscription.this) == 0
    error_message = "A system without recipients must be plannable."
  }
}

run "a_text_message" {
  command = plan
  variables {
    targets = { me = { protocol = "sms", endpoint = "+15550100" } }
  }
  expect_failures = [var.targets]
}

run "no_address" {
  command = plan
  variables {
    targets = { me = { protocol = "email", endpoint = "me" } }
  }
  expect_failures = [var.targets]
}

run "a_url_without_tls" {
  command = plan
  variables {
    targets = { me = { protocol = "https", endpoint = "http://events.example.com" } }
  }
  expect_failures = [var.targets]
}

run "a_url_with_a_password" {
  command = plan
  variables {
    targets = { me = { protocol = "https", endpoint = "https://me:secret@events.example.com/hook" } }
  }
  expect_failures = [var.targets]
}

run "a_function_of_another_region" {
  command = plan
  variables {
    targets = { me = { protocol = "lambda", endpoint = "arn:aws:lambda:us-west-2:111122223333:function:archive" } }
  }
  expect_failures = [var.targets]
}

run "a_severity_that_no_rule_has" {
  command = plan
  variables {
    targets = { me = { protocol = "email", endpoint = "me@example.com", severities = ["critical"] } }
  }
  expect_failures = [var.targets]
}

run "a_key_of_another_region" {
  command = plan
  variables {
    kms_key_arn = "arn:aws:kms:us-west-2:111122223333:key/0"
  }
  expect_failures = [var.kms_key_arn]
}
