terraform {
  required_version = ">= 1.11.0"
  required_providers {
    aws = {
      source = "hashicorp/aws"
      # 6 gives most resources a region of their own; not tried yet.
      version = ">= 5.100.0, < 7.0.0"
    }
  }
}
