# No provider: everything here is worked out at plan time, and a test can render it without AWS.
terraform {
  required_version = ">= 1.11.0"
}
