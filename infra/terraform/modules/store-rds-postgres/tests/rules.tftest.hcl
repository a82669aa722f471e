mock_provider "aws" {
  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::111122223333:role/one" }
  }
}

variables {
  name         = "highwater-us-east-1"
  region       = "us-east-1"
  vpc_id       = "vpc-1"
  subnet_ids   = ["subnet-1", "subnet-2", "subnet-3"]
  client_cidrs = { us-west-2 = "10.20.64.0/18" }

  client_security_group_ids = { us-east-1 = "sg-services" }
  kms_key_arn               = "arn:aws:kms:us-east-1:111122223333:key/0"
  role                      = "primary"
  master_password           = "0123456789abcdef"

  master_password_version = 1
  service_sessions        = 200
}

run "primary" {
  command = plan

  assert {
    condition     = aws_db_instance.this.publicly_accessible == false && aws_db_instance.this.storage_encrypted && aws_db_instance.this.deletion_protection && aws_db_instance.this.multi_az
    error_message = "A primary must be private and encrypted, have deletion protection and have a standby."
  }
  assert {
    condition     = aws_db_instance.this.password_wo == null && aws_db_instance.this.password == null
    error_message = "The state must contain no password."
  }
  assert {
    condition     = aws_db_instance.this.auto_minor_version_upgrade == false
    error_message = "The node must not restart without an operator."
  }
  assert {
    condition     = length(aws_vpc_security_group_ingress_rule.postgres) == 1 && aws_vpc_security_group_ingress_rule.services["us-east-1"].referenced_security_group_id == "sg-services" && aws_vpc_security_group_ingress_rule.services["us-east-1"].from_port == 5432 && alltrue([for rule in aws_vpc_security_group_ingress_rule.postgres : rule.from_port == 5432])
    error_message = "Only each region's services may connect, and only to PostgreSQL."
  }
  assert {
    condition = length(setintersection(
      [for parameter in aws_db_parameter_group.this.parameter : parameter.name],
      ["synchronous_commit", "synchronous_standby_names", "fsync", "full_page_writes", "idle_session_timeout", "wal_level"],
    )) == 0
    error_message = "The module must not set parameters that could break a promise."
  }
  assert {
    condition     = aws_db_parameter_group.this.family == "postgres17"
    error_message = "The parameter group's family must match the engine version."
  }
  assert {
    condition     = contains(keys(aws_cloudwatch_metric_alarm.this), "slot_lag") && !contains(keys(aws_cloudwatch_metric_alarm.this), "replica_lag")
    error_message = "A primary must have an alarm for the log that it keeps."
  }
  assert {
    condition     = output.node.ask && output.node.id == "us-east-1"
    error_message = "The node must be marked `ask`, so that trackers ask it for its own position."
  }
}

run "replica" {
  command = plan
  variables {
    name                 = "highwater-us-west-2"
    region               = "us-west-2"
    role                 = "replica"
    replicate_source_arn = "arn:aws:rds:us-east-1:111122223333:db:highwater-us-east-1"
    master_password      = null

    master_password_version = null
  }

  assert {
    condition     = aws_db_instance.this.replicate_source_db == "arn:aws:rds:us-east-1:111122223333:db:highwater-us-east-1"
    error_message = "A replica must replicate from its source."
  }
  assert {
    condition     = aws_db_instance.this.backup_retention_period == 14
    error_message = "A replica must have backups, too, because it may be promoted."
  }
  assert {
    condition     = contains(keys(aws_cloudwatch_metric_alarm.this), "replica_lag") && !contains(keys(aws_cloudwatch_metric_alarm.this), "slot_lag")
    error_message = "A replica must have an alarm for its lag."
  }
}

run "an_old_postgres" {
  command = plan
  variables {
    engine_version = "15.12"
  }
  expect_failures = [var.engine_version]
}

run "a_version_that_upgrades_by_itself" {
  command = plan
  variables {
    engine_version = "17"
  }
  expect_failures = [var.engine_version]
}

run "a_burstable_class" {
  command = plan
  variables {
    instance_class = "db.t4g.large"
  }
  expect_failures = [var.instance_class]
}

run "more_sessions_than_the_node_has" {
  command = plan
  variables {
    service_sessions = 971
  }
  expect_failures = [var.service_sessions]
}

run "as_many_sessions_as_the_node_has" {
  command = plan
  variables {
    service_sessions = 970
  }
}

run "no_backups" {
  command = plan
  variables {
    backup_retention_days = 0
  }
  expect_failures = [var.backup_retention_days]
}

run "open_to_everybody" {
  command = plan
  variables {
    client_cidrs = { world = "0.0.0.0/0" }
  }
  expect_failures = [var.client_cidrs]
}

run "open_to_a_whole_network" {
  command = plan
  variables {
    client_cidrs = { us-west-2 = "10.20.0.0/16" }
  }
  expect_failures = [var.client_cidrs]
}

run "open_to_nothing" {
  command = plan
  variables {
    client_cidrs              = {}
    client_security_group_ids = {}
  }
  expect_failures = [var.client_cidrs]
}

run "a_source_by_name" {
  command = plan
  variables {
    role                 = "replica"
    replicate_source_arn = "highwater-us-east-1"
    master_password      = null

    master_password_version = null
  }
  expect_failures = [var.replicate_source_arn]
}

run "a_replica_without_a_standby" {
  command = plan
  variables {
    role                 = "replica"
    replicate_source_arn = "arn:aws:rds:us-east-1:111122223333:db:highwater-us-east-1"
    master_password      = null
    multi_az             = false

    master_password_version = null
  }
  expect_failures = [aws_db_instance.this]
}

run "a_replica_of_nobody" {
  command = plan
  variables {
    role            = "replica"
    master_password = null

    master_password_version = null
  }
  expect_failures = [var.replicate_source_arn]
}

run "a_primary_without_a_password" {
  command = plan
  variables {
    master_password_version = null
  }
  expect_failures = [var.master_password_version]
}

# After a failover a node that was made as a replica is the primary. The plan does not repeat what
# RDS set on it, so nothing can differ and have the node made anew.
# (test/after-failover.slow.test.ts has what the provider itself makes of it.)
run "promoted" {
  command = plan
  variables {
    name            = "highwater-us-west-2"
    region          = "us-west-2"
    role            = "promoted"
    master_password = null

    master_password_version = null
  }

  assert {
    condition     = aws_db_instance.this.replicate_source_db == null && aws_db_instance.this.password_wo_version == null
    error_message = "A promoted node must replicate from no instance and keep its password."
  }
  assert {
    condition     = aws_db_instance.this.backup_retention_period == 14 && aws_db_instance.this.deletion_protection && aws_db_instance.this.multi_az
    error_message = "A promoted node must have the settings of a primary."
  }
  assert {
    condition     = contains(keys(aws_cloudwatch_metric_alarm.this), "slot_lag") && !contains(keys(aws_cloudwatch_metric_alarm.this), "replica_lag")
    error_message = "A promoted node must have the alarms of a primary."
  }
}

run "promoted_and_still_following" {
  command = plan
  variables {
    role                 = "promoted"
    replicate_source_arn = "arn:aws:rds:us-east-1:111122223333:db:highwater-us-east-1"
    master_password      = null

    master_password_version = null
  }
  expect_failures = [var.replicate_source_arn]
}

run "promoted_with_a_password" {
  command = plan
  variables {
    role = "promoted"
  }
  expect_failures = [var.master_password, var.master_password_version]
}

run "a_primary_with_a_version_of_no_password" {
  command = plan
  variables {
    master_password = null
  }
  expect_failures = [var.master_password]
}

run "a_window_in_other_words" {
  command = plan
  variables {
    windows = { maintenance = "sunday at three", backup = "01:00-02:00" }
  }
  expect_failures = [var.windows]
}
