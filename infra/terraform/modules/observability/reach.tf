# The way of other regions' collectors to this workspace: over the peering to this region's
# endpoint, which the name of the service means in their networks, too. No way leads over the
# internet. The endpoint has to let them in (`endpoint_clients` of `network`).

resource "aws_route53_zone" "this" {
  count = length(var.remote_vpc_ids) > 0 ? 1 : 0

  name    = "aps-workspaces.${var.region}.amazonaws.com"
  comment = "${var.name}: for the collectors of ${join(", ", keys(var.remote_vpc_ids))}"

  dynamic "vpc" {
    for_each = var.remote_vpc_ids
    content {
      vpc_id     = vpc.value
      vpc_region = vpc.key
    }
  }
}

resource "aws_route53_record" "this" {
  count = length(var.remote_vpc_ids) > 0 ? 1 : 0

  zone_id = aws_route53_zone.this[0].zone_id
  name    = aws_route53_zone.this[0].name
  type    = "A"

  alias {
    name                   = var.endpoint.dns_name
    zone_id                = var.endpoint.zone_id
    evaluate_target_health = false
  }
}
