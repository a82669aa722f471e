output "json" {
  description = "The document, for AWS Systems Manager."
  value       = jsonencode(local.document)
}

output "script_calls" {
  description = "What the script of the document calls, as `service:Api`; a test holds the script and the role's policy against it."
  value       = ["ec2:DescribeNetworkAcls", "ec2:ReplaceNetworkAclAssociation"]
}
