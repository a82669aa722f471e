# No provider: everything here is worked out at plan time.
terraform {
  required_version = ">= 1.11.0"
}
