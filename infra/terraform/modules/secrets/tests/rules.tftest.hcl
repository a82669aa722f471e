mock_provider "aws" {
  mock_resource "aws_secretsmanager_secret" {
    defaults = { arn = "arn:aws:secretsmanager:us-east-1:111122223333:secret:highwater/one-AbCdEf" }
  }
}

variables {
  name                 = "highwater"
  kms_key_arn          = "arn:aws:kms:us-east-1:111122223333:key/0"
  replica_kms_key_arns = { us-west-2 = "arn:aws:kms:us-west-2:111122223333:key/1" }
  master_password      = "0123456789abcdef"
  service_password     = "0123456789abcdef"
  internal_secret      = "0123456789abcdef"
  deployment_secret    = "0123456789abcdef0123456789abcdef"
}

run "copies_in_every_region" {
  command = apply

  assert {
    condition     = output.arns["us-west-2"].service == "arn:aws:secretsmanager:us-west-2:111122223333:secret:highwater/one-AbCdEf"
    error_message = "A copy's ARN must differ only in its region."
  }
  assert {
    condition     = alltrue([for secret in aws_secretsmanager_secret.this : length(secret.replica) == 1])
    error_message = "Every secret must have a copy in every further region."
  }
  assert {
    condition     = aws_secretsmanager_secret_version.service.secret_string_wo == null && aws_secretsmanager_secret_version.deployment.secret_string_wo == null && aws_secretsmanager_secret_version.master.secret_string_wo == null
    error_message = "The state must contain no value of a secret."
  }
  assert {
    condition     = toset(aws_secretsmanager_secret_version.gateways.version_stages) == toset(["AWSCURRENT", "TERRAFORM"])
    error_message = "Terraform must write the value only once. Otherwise it would overwrite an operator's value."
  }
}

run "a_short_password" {
  command = plan
  variables {
    master_password = "short"
  }
  expect_failures = [var.master_password]
}

run "a_short_deployment_secret" {
  command = plan
  variables {
    deployment_secret = "0123456789abcdef"
  }
  expect_failures = [var.deployment_secret]
}

run "a_password_that_the_database_refuses" {
  command = plan
  variables {
    master_password = "0123456789abcdef/@"
  }
  expect_failures = [var.master_password]
}

run "a_key_of_another_region" {
  command = plan
  variables {
    replica_kms_key_arns = { us-west-2 = "arn:aws:kms:us-east-1:111122223333:key/1" }
  }
  expect_failures = [var.replica_kms_key_arns]
}
