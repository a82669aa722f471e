# Rules of tflint: all that are part of it. Those for AWS are a program of their own, which could
# not be had (docs/decisions/0078).
config {
  call_module_type = "local"
}

plugin "terraform" {
  enabled = true
  preset  = "all"
}
