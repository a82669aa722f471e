output "arn" {
  description = "The certificate, once it is issued."
  value       = aws_acm_certificate_validation.this.certificate_arn
}
