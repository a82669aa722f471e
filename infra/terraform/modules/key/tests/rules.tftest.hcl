mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }
}

variables {
  name       = "highwater-us-east-1"
  account_id = "111122223333"
  region     = "us-east-1"
}

run "rotates" {
  command = plan

  assert {
    condition     = aws_kms_key.this.enable_key_rotation && aws_kms_key.this.deletion_window_in_days == 30
    error_message = "The key must rotate, and a deletion must be reversible for some time."
  }
}

run "a_deletion_that_nobody_could_take_back" {
  command = plan
  variables {
    deletion_window_days = 1
  }
  expect_failures = [var.deletion_window_days]
}

run "no_account" {
  command = plan
  variables {
    account_id = "me"
  }
  expect_failures = [var.account_id]
}
