# A pipeline of downloads: a queue, the queue for what cannot be downloaded, and an alarm that tells of it.

terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}

variable "endpoint" {
  type = string
}

variable "threshold" {
  type    = number
  default = 0
}

provider "aws" {
  region                      = "us-east-1"
  access_key                  = "AKIDEXAMPLE"
  secret_key                  = "secret"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
  skip_region_validation      = true
  max_retries                 = 1

  endpoints {
    sqs        = var.endpoint
    cloudwatch = var.endpoint
    sts        = var.endpoint
  }
}

resource "aws_sqs_queue" "dlq" {
  name                      = "data-download-dlq.fifo"
  fifo_queue                = true
  message_retention_seconds = 1209600
  kms_master_key_id         = "alias/aws/sqs"
}

resource "aws_sqs_queue" "downloads" {
  name                        = "data-download-queue.fifo"
  fifo_queue                  = true
  content_based_deduplication = true
  visibility_timeout_seconds  = 3600
  message_retention_seconds   = 1209600
  kms_master_key_id           = "alias/aws/sqs"

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dlq.arn
    maxReceiveCount     = 3
  })

  tags = { team = "data" }
}

resource "aws_cloudwatch_metric_alarm" "dlq_not_empty" {
  alarm_name          = "data-download-dlq-not-empty"
  alarm_description   = "A file cannot be downloaded."
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = aws_sqs_queue.dlq.name }
  statistic           = "Sum"
  period              = 60
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = var.threshold
  alarm_actions       = ["arn:aws:sns:us-east-1:000000000000:log"]

  tags = { team = "data" }
}

resource "aws_cloudwatch_metric_alarm" "double_deletes" {
  alarm_name          = "data-download-double-deletes"
  evaluation_periods  = 2
  datapoints_to_alarm = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 1.05
  treat_missing_data  = "notBreaching"

  metric_query {
    id          = "ratio"
    expression  = "deleted / sent"
    label       = "deleted over sent"
    return_data = true
  }

  metric_query {
    id = "deleted"
    metric {
      namespace   = "AWS/SQS"
      metric_name = "NumberOfMessagesDeleted"
      dimensions  = { QueueName = aws_sqs_queue.downloads.name }
      period      = 900
      stat        = "Sum"
    }
  }

  metric_query {
    id = "sent"
    metric {
      namespace   = "AWS/SQS"
      metric_name = "NumberOfMessagesSent"
      dimensions  = { QueueName = aws_sqs_queue.downloads.name }
      period      = 900
      stat        = "Sum"
      unit        = "Count"
    }
  }
}
