# Queues with any tags, among them those that switch extensions of tenaq on.

terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}

variable "endpoint" {
  type = string
}

variable "queues" {
  type = map(object({ fifo = bool, tags = map(string) }))
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
    sqs = var.endpoint
  }
}

resource "aws_sqs_queue" "each" {
  for_each   = var.queues
  name       = each.key
  fifo_queue = each.value.fifo
  tags       = each.value.tags
}
