# moto does not tell the tags of what Application Auto Scaling has, which the provider asks for after each target.
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
