# Pinned to what the tests ran with.
terraform {
  required_version = ">= 1.11.0"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "5.100.0"
    }
  }
}

locals {
  tags = merge(var.tags, { System = var.name, ManagedBy = "terraform" })
}

# Secrets and global resources are made from the home region.
provider "aws" {
  region = "us-east-1"
  default_tags {
    tags = local.tags
  }
}

provider "aws" {
  alias  = "east"
  region = "us-east-1"
  default_tags {
    tags = local.tags
  }
}

provider "aws" {
  alias  = "west"
  region = "us-west-2"
  default_tags {
    tags = local.tags
  }
}

provider "aws" {
  alias  = "europe"
  region = "eu-west-1"
  default_tags {
    tags = local.tags
  }
}
