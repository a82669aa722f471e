# The way of clients into one region: a load balancer that ends TLS, and its DNS record, by which
# clients reach the nearest healthy region under one name. Routing, retries and limits are in the
# configuration of the edges (infra/envoy).

locals {
  # By port; an edge has the same port.
  postgres_groups = var.postgres == null ? {} : var.postgres.target_group_arns
}

resource "aws_security_group" "this" {
  name        = "${var.name}-public"
  description = "HTTPS from clients"
  vpc_id      = var.vpc_id
  tags        = { Name = "${var.name}-public" }
}

resource "aws_vpc_security_group_ingress_rule" "https" {
  for_each = var.client_cidrs

  security_group_id = aws_security_group.this.id
  description       = "Clients: ${each.key}"
  cidr_ipv4         = each.value
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_vpc_security_group_egress_rule" "edges" {
  for_each = setunion([for port in var.edge_ports : tostring(port)], keys(local.postgres_groups))

  security_group_id            = aws_security_group.this.id
  description                  = "The region's edges"
  referenced_security_group_id = var.edge_security_group_id
  ip_protocol                  = "tcp"
  from_port                    = tonumber(each.key)
  to_port                      = tonumber(each.key)
}

resource "aws_vpc_security_group_ingress_rule" "postgres" {
  for_each = { for pair in setproduct(keys(local.postgres_groups), keys(var.client_cidrs)) : "${pair[0]}/${pair[1]}" => { port = tonumber(pair[0]), clients = pair[1] } }

  security_group_id = aws_security_group.this.id
  description       = "PostgreSQL clients: ${each.value.clients}"
  cidr_ipv4         = var.client_cidrs[each.value.clients]
  ip_protocol       = "tcp"
  from_port         = each.value.port
  to_port           = each.value.port
}

resource "aws_lb" "this" {
  # checkov:skip=CKV2_AWS_76:As CKV_AWS_192 of the web ACL: nothing behind it runs Java.
  name               = var.name
  load_balancer_type = "application"
  internal           = false
  subnets            = var.subnet_ids
  security_groups    = [aws_security_group.this.id]

  # A stream says that it is alive every five seconds (TRACKER_HEARTBEAT_MS), and a request may wait
  # a minute for its mark.
  idle_timeout = 120
  # What two servers could read in two ways is refused.
  drop_invalid_header_fields = true
  desync_mitigation_mode     = "strictest"
  enable_deletion_protection = var.deletion_protection

  dynamic "access_logs" {
    for_each = var.access_log_bucket == null ? [] : [var.access_log_bucket]
    content {
      bucket  = access_logs.value
      enabled = true
    }
  }
}

# There is no listener for plain HTTP, not even one that redirects: the first request would already
# have shown its API key.
resource "aws_lb_listener" "https" {
  load_balancer_arn = aws_lb.this.arn
  protocol          = "HTTPS"
  port              = 443
  ssl_policy        = "ELBSecurityPolicy-TLS13-1-2-Res-2021-06"
  certificate_arn   = var.certificate_arn

  default_action {
    type             = "forward"
    target_group_arn = var.target_group_arn
  }
}

# Healthy: an edge says that it can serve, with services of its own region or of another one.
resource "aws_cloudwatch_metric_alarm" "healthy" {
  alarm_name          = "${var.name}-edge-healthy"
  alarm_description   = "No edge of the region reaches a gateway and a tracker. DNS sends clients to other regions."
  namespace           = "AWS/ApplicationELB"
  metric_name         = "HealthyHostCount"
  dimensions          = { LoadBalancer = aws_lb.this.arn_suffix, TargetGroup = var.target_group_arn_suffix }
  statistic           = "Minimum"
  period              = 60
  evaluation_periods  = 1
  comparison_operator = "LessThanThreshold"
  threshold           = 1
  treat_missing_data  = "breaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
}

resource "aws_route53_health_check" "this" {
  type                    = "CLOUDWATCH_METRIC"
  cloudwatch_alarm_name   = aws_cloudwatch_metric_alarm.healthy.alarm_name
  cloudwatch_alarm_region = var.region
  # A region whose monitoring is silent may well be gone.
  insufficient_data_health_status = "Unhealthy"
  tags                            = { Name = var.name }
}

# Both: the load balancer's own view takes seconds, the alarm still speaks when the region's load
# balancing does not.
resource "aws_route53_record" "this" {
  zone_id         = var.zone_id
  name            = var.domain_name
  type            = "A"
  set_identifier  = var.region
  health_check_id = aws_route53_health_check.this.id

  alias {
    name                   = aws_lb.this.dns_name
    zone_id                = aws_lb.this.zone_id
    evaluate_target_health = true
  }

  latency_routing_policy {
    region = var.region
  }
}

resource "aws_wafv2_web_acl" "this" {
  # checkov:skip=CKV_AWS_192:Nothing behind it runs Java, and a request is SQL with values in which any text may be meant.
  # checkov:skip=CKV2_AWS_31:What it refuses is counted by its metrics. Its log would hold whole headers, and API keys are in them.
  count = var.requests_per_address == null ? 0 : 1

  name        = var.name
  description = "Requests of one address"
  scope       = "REGIONAL"

  default_action {
    allow {}
  }

  rule {
    name     = "rate"
    priority = 1

    action {
      block {}
    }

    statement {
      rate_based_statement {
        limit              = var.requests_per_address
        aggregate_key_type = "IP"
      }
    }

    visibility_config {
      cloudwatch_metrics_enabled = true
      metric_name                = "${var.name}-rate"
      sampled_requests_enabled   = false
    }
  }

  visibility_config {
    cloudwatch_metrics_enabled = true
    metric_name                = var.name
    sampled_requests_enabled   = false
  }
}

resource "aws_wafv2_web_acl_association" "this" {
  count = var.requests_per_address == null ? 0 : 1

  resource_arn = aws_lb.this.arn
  web_acl_arn  = aws_wafv2_web_acl.this[0].arn
}

# The way of PostgreSQL clients: their bytes pass as they are, and the gateway terminates TLS.
resource "aws_lb" "postgres" {
  count = var.postgres == null ? 0 : 1

  name                             = "${substr(var.name, 0, 23)}-postgres"
  load_balancer_type               = "network"
  internal                         = false
  subnets                          = var.subnet_ids
  security_groups                  = [aws_security_group.this.id]
  enable_cross_zone_load_balancing = true
  enable_deletion_protection       = var.deletion_protection

  dynamic "access_logs" {
    for_each = var.access_log_bucket == null ? [] : [var.access_log_bucket]
    content {
      bucket  = access_logs.value
      prefix  = "postgres"
      enabled = true
    }
  }
}

resource "aws_lb_listener" "postgres" {
  # checkov:skip=CKV_AWS_2:PostgreSQL's protocol begins without TLS; the gateway asks for it and refuses a password before it.
  # checkov:skip=CKV_AWS_103:TLS is the gateway's, as CKV_AWS_2 says, so the listener has no version of it.
  for_each = local.postgres_groups

  load_balancer_arn = aws_lb.postgres[0].arn
  protocol          = "TCP"
  port              = tonumber(each.key)

  default_action {
    type             = "forward"
    target_group_arn = each.value
  }
}

resource "aws_route53_record" "postgres" {
  count = var.postgres == null ? 0 : 1

  zone_id         = var.zone_id
  name            = var.postgres.domain_name
  type            = "A"
  set_identifier  = var.region
  health_check_id = aws_route53_health_check.this.id

  alias {
    name                   = aws_lb.postgres[0].dns_name
    zone_id                = aws_lb.postgres[0].zone_id
    evaluate_target_health = true
  }

  latency_routing_policy {
    region = var.region
  }
}
