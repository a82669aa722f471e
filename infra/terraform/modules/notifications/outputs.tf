output "topic_arn" {
  description = "The topic, for `alarm_topic_arns` of the other modules and for `observability`. Known once its policy lets them send."
  value       = aws_sns_topic.this.arn
  depends_on  = [aws_sns_topic_policy.this]
}
