# The certificate of one region. ACM renews it by itself as long as its DNS record exists.

resource "aws_acm_certificate" "this" {
  domain_name       = var.domain_name
  validation_method = "DNS"
  tags              = { Name = var.domain_name }

  lifecycle {
    # A load balancer cannot be without one.
    create_before_destroy = true
  }
}

resource "aws_route53_record" "this" {
  zone_id = var.zone_id
  name    = one(aws_acm_certificate.this.domain_validation_options).resource_record_name
  type    = one(aws_acm_certificate.this.domain_validation_options).resource_record_type
  records = [one(aws_acm_certificate.this.domain_validation_options).resource_record_value]
  ttl     = 300
  # The certificates of all regions ask for the same record.
  allow_overwrite = true
}

resource "aws_acm_certificate_validation" "this" {
  certificate_arn         = aws_acm_certificate.this.arn
  validation_record_fqdns = [aws_route53_record.this.fqdn]
}
