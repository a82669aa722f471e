variable "domain_name" {
  description = "Name that the certificate is for."
  type        = string

  validation {
    condition     = can(regex("^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\\.)+[a-z]{2,63}$", var.domain_name))
    error_message = "Must be a domain name in lower case."
  }
}

variable "zone_id" {
  description = "Public hosted zone of the name. ACM checks a record in it to confirm that you own the name."
  type        = string

  validation {
    condition     = can(regex("^[A-Z0-9]{1,32}$", var.zone_id))
    error_message = "Must be the id of a hosted zone."
  }
}
