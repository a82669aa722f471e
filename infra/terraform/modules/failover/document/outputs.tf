output "json" {
  description = "The document, for AWS Systems Manager."
  value       = jsonencode(local.document)
}

output "script_calls" {
  description = "The calls of the document's script, as `service:Api`. A test compares them with the script and with the role's policy."
  value       = ["ec2:DescribeNetworkAcls", "ec2:ReplaceNetworkAclAssociation"]
}
