terraform {
  required_version = ">= 1.11.0"
  required_providers {
    aws = {
      source                = "hashicorp/aws"
      version               = ">= 5.100.0, < 7.0.0"
      configuration_aliases = [aws.requester, aws.accepter]
    }
  }
}
