# moto does not return the tags of Application Auto Scaling's targets, which the provider asks for
# after each target.
resource "aws_appautoscaling_target" "burst" { for_each = {} }
resource "aws_appautoscaling_policy" "burst" { for_each = {} }
resource "aws_cloudwatch_metric_alarm" "burst" { for_each = {} }
resource "aws_appautoscaling_target" "edge" { count = 0 }
resource "aws_appautoscaling_policy" "edge" {
  count              = 0
  service_namespace  = "ecs"
  scalable_dimension = "ecs:service:DesiredCount"
  resource_id        = "none"
}
# moto forgets these settings of a service and the descriptions of these rules, so that each plan
# would set them again.
resource "aws_ecs_service" "first" {
  lifecycle { ignore_changes = [enable_ecs_managed_tags, availability_zone_rebalancing] }
}
resource "aws_ecs_service" "second" {
  lifecycle { ignore_changes = [enable_ecs_managed_tags, availability_zone_rebalancing] }
}
resource "aws_ecs_service" "burst" {
  lifecycle { ignore_changes = [desired_count, enable_ecs_managed_tags, availability_zone_rebalancing] }
}
resource "aws_ecs_service" "edge" {
  lifecycle { ignore_changes = [desired_count, enable_ecs_managed_tags, availability_zone_rebalancing, health_check_grace_period_seconds] }
}
resource "aws_vpc_security_group_egress_rule" "endpoints" {
  lifecycle { ignore_changes = [description] }
}
resource "aws_vpc_security_group_egress_rule" "images" {
  lifecycle { ignore_changes = [description] }
}
resource "aws_vpc_security_group_egress_rule" "services" {
  lifecycle { ignore_changes = [description] }
}
resource "aws_vpc_security_group_egress_rule" "databases" {
  lifecycle { ignore_changes = [description] }
}
resource "aws_vpc_security_group_ingress_rule" "slots" {
  lifecycle { ignore_changes = [description] }
}
resource "aws_vpc_security_group_ingress_rule" "edge" {
  lifecycle { ignore_changes = [description] }
}
