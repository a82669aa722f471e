output "document_name" {
  description = "The document that fails over to this region's node."
  value       = aws_ssm_document.this.name
}

output "start_command" {
  description = "Starts a failover to this region's node: it previews, and then waits for approval. OLD_PRIMARY is the node that dies."
  value       = "aws ssm start-automation-execution --region ${var.region} --document-name ${aws_ssm_document.this.name} --parameters OldPrimary=OLD_PRIMARY"
}

output "approval_topic_arn" {
  description = "Topic that asks for approval, for further subscriptions."
  value       = aws_sns_topic.approval.arn
}

output "log_group" {
  description = "The log group of the failover's tasks."
  value       = aws_cloudwatch_log_group.this.name
}
