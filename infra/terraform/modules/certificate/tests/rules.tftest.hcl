mock_provider "aws" {
  mock_resource "aws_acm_certificate" {
    defaults = {
      arn = "arn:aws:acm:us-east-1:111122223333:certificate/1"
      domain_validation_options = [{
        domain_name           = "db.example.com"
        resource_record_name  = "_1.db.example.com."
        resource_record_type  = "CNAME"
        resource_record_value = "_2.acm-validations.aws."
      }]
    }
  }
}

variables {
  domain_name = "db.example.com"
  zone_id     = "Z1"
}

run "validated_by_a_record_that_stays" {
  command = apply

  assert {
    condition     = aws_route53_record.this.type == "CNAME" && aws_route53_record.this.allow_overwrite && aws_acm_certificate.this.validation_method == "DNS"
    error_message = "The DNS record must be the one that ACM requests."
  }
}

run "a_url_is_no_name" {
  command = plan
  variables {
    domain_name = "https://db.example.com"
  }
  expect_failures = [var.domain_name]
}
