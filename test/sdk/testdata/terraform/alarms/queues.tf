# Queues of both types with everything that can be set on them, each with the queue for what fails.

locals {
  arns = "arn:aws:sqs:us-east-1:000000000000"
}

resource "aws_sqs_queue" "orders_dead" {
  name                      = "data-orders-dead"
  message_retention_seconds = 1209600

  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = ["${local.arns}:data-orders"]
  })
}

resource "aws_sqs_queue" "orders" {
  name                       = "data-orders"
  delay_seconds              = 5
  max_message_size           = 2048
  message_retention_seconds  = 86400
  receive_wait_time_seconds  = 10
  visibility_timeout_seconds = 60
  sqs_managed_sse_enabled    = true
  tags                       = { team = "orders", stage = "" }

  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.orders_dead.arn
    maxReceiveCount     = 4
  })

  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "senders"
      Effect    = "Allow"
      Principal = { AWS = "arn:aws:iam::111122223333:root" }
      Action    = "sqs:SendMessage"
      Resource  = "${local.arns}:data-orders"
    }]
  })
}

resource "aws_sqs_queue" "groups" {
  name                        = "data-groups.fifo"
  fifo_queue                  = true
  content_based_deduplication = true
  deduplication_scope         = "messageGroup"
  fifo_throughput_limit       = "perMessageGroupId"
}
