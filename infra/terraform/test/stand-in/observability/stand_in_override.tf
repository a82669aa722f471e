# moto has no alert managers.
resource "aws_prometheus_alert_manager_definition" "this" { count = 0 }
