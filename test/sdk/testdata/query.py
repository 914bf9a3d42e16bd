# Leads queues and messages through a botocore that speaks the Query protocol, as all did before 1.31.81. The argument
# is the endpoint.
import os
import sys

import botocore.config
import botocore.session

os.environ.update(AWS_EC2_METADATA_DISABLED="true", AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull)
os.environ.update(NO_PROXY="127.0.0.1")
session = botocore.session.get_session()
session.set_credentials("AKIDEXAMPLE", "secret")
client = session.create_client(
    "sqs",
    region_name="us-east-1",
    endpoint_url=sys.argv[1],
    config=botocore.config.Config(retries={"total_max_attempts": 1}),
)
assert client.meta.service_model.metadata["protocol"] == "query", client.meta.service_model.metadata


def refused(code, text, call, **arguments):
    try:
        answer = call(**arguments)
    except client.exceptions.ClientError as e:
        error = e.response["Error"]
        assert error["Code"] == code and text in error["Message"] and error["Type"] == "Sender", error
        assert error["Detail"] is None, error  # the empty element
        assert len(e.response["ResponseMetadata"]["RequestId"]) == 36, e.response
        assert e.response["ResponseMetadata"]["RequestId"] == e.response["ResponseMetadata"]["HTTPHeaders"]["x-amzn-requestid"]
        return e
    raise AssertionError(f"{answer}, want {code}")


# Queues.
url = client.create_queue(QueueName="orders", Attributes={"VisibilityTimeout": "40"}, tags={"team": "a b", "empty": ""})["QueueUrl"]
assert client.get_queue_url(QueueName="orders")["QueueUrl"] == url
client.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "50"})
attributes = client.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
assert attributes["VisibilityTimeout"] == "50" and len(attributes) >= 12, attributes
assert "Attributes" not in client.get_queue_attributes(QueueUrl=url)
assert "Attributes" not in client.get_queue_attributes(QueueUrl=url, AttributeNames=[])
client.tag_queue(QueueUrl=url, Tags={"env": "x+y"})  # written as Tags.1.Key
client.untag_queue(QueueUrl=url, TagKeys=["team"])
assert client.list_queue_tags(QueueUrl=url)["Tags"] == {"empty": "", "env": "x+y"}
for i in range(5):
    client.create_queue(QueueName=f"page-{i}")
pages = list(client.get_paginator("list_queues").paginate(QueueNamePrefix="page-", PaginationConfig={"PageSize": 2}))
assert [len(p["QueueUrls"]) for p in pages] == [2, 2, 1], pages
assert "QueueUrls" not in client.list_queues(QueueNamePrefix="none")

# Messages.
body = 'a\r\n"b" &quot; ]]> <c>\t\U0001F600 \u2028'
sent = client.send_message(
    QueueUrl=url,
    MessageBody=body,
    MessageAttributes={
        "text": {"DataType": "String", "StringValue": body},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\x01\xfe\xff\r\n"},
    },
    MessageSystemAttributes={"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}},
)
received = client.receive_message(QueueUrl=url, WaitTimeSeconds=5, AttributeNames=["All"], MessageAttributeNames=["All"])["Messages"]
assert len(received) == 1 and received[0]["Body"] == body, received
assert received[0]["MessageAttributes"]["text"]["StringValue"] == body
assert received[0]["MessageAttributes"]["bytes"]["BinaryValue"] == b"\x00\x01\xfe\xff\r\n"
assert received[0]["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
assert received[0]["Attributes"]["AWSTraceHeader"].startswith("Root=1"), received
client.change_message_visibility(QueueUrl=url, ReceiptHandle=received[0]["ReceiptHandle"], VisibilityTimeout=0)
received = client.receive_message(QueueUrl=url, AttributeNames=["ApproximateReceiveCount"])["Messages"]
assert received[0]["Attributes"] == {"ApproximateReceiveCount": "2"}, received
client.delete_message(QueueUrl=url, ReceiptHandle=received[0]["ReceiptHandle"])
batch = client.send_message_batch(
    QueueUrl=url,
    Entries=[{"Id": "a", "MessageBody": "1"}, {"Id": "bad", "MessageBody": "2", "DelaySeconds": 901}, {"Id": "c", "MessageBody": "3"}],
)
assert [e["Id"] for e in batch["Successful"]] == ["a", "c"], batch
assert [(e["Id"], e["Code"], e["SenderFault"]) for e in batch["Failed"]] == [("bad", "InvalidParameterValue", True)], batch
received = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
assert [m["Body"] for m in received] == ["1", "3"], received
changed = client.change_message_visibility_batch(
    QueueUrl=url, Entries=[{"Id": "a", "ReceiptHandle": received[0]["ReceiptHandle"], "VisibilityTimeout": 60}]
)
assert changed["Successful"] == [{"Id": "a"}] and "Failed" not in changed, changed
deleted = client.delete_message_batch(
    QueueUrl=url, Entries=[{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(received)]
)
assert len(deleted["Successful"]) == 2, deleted
assert "Messages" not in client.receive_message(QueueUrl=url)

# FIFO.
jobs = client.create_queue(QueueName="jobs.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
first, second, again = (
    client.send_message(QueueUrl=jobs, MessageBody=b, MessageGroupId="g", MessageDeduplicationId=d) for b, d in [("1", "a"), ("2", "b"), ("1", "a")]
)
assert first["SequenceNumber"] < second["SequenceNumber"] and again["MessageId"] == first["MessageId"]
received = client.receive_message(QueueUrl=jobs, MaxNumberOfMessages=10, ReceiveRequestAttemptId="attempt", AttributeNames=["All"])["Messages"]
assert [m["Attributes"]["MessageGroupId"] for m in received] == ["g", "g"], received

# Dead letters.
dead = client.create_queue(QueueName="dead")["QueueUrl"]
policy = '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead","maxReceiveCount":"1"}'
work = client.create_queue(QueueName="work", Attributes={"RedrivePolicy": policy, "VisibilityTimeout": "0"})["QueueUrl"]
assert client.list_dead_letter_source_queues(QueueUrl=dead)["queueUrls"] == [work]
client.send_message(QueueUrl=work, MessageBody="poison")
client.receive_message(QueueUrl=work)
client.receive_message(QueueUrl=work)
assert client.receive_message(QueueUrl=dead, WaitTimeSeconds=5, VisibilityTimeout=0)["Messages"][0]["Body"] == "poison"
client.start_message_move_task(SourceArn="arn:aws:sqs:us-east-1:000000000000:dead")
tasks = client.list_message_move_tasks(SourceArn="arn:aws:sqs:us-east-1:000000000000:dead")["Results"]
assert len(tasks) == 1 and isinstance(tasks[0]["StartedTimestamp"], int), tasks

# Errors, typed as far as this botocore has types for them.
e = refused("AWS.SimpleQueueService.NonExistentQueue", "for this wsdl version.", client.get_queue_url, QueueName="nowhere")
assert isinstance(e, client.exceptions.QueueDoesNotExist), type(e)
refused("ReceiptHandleIsInvalid", '"\ufffd<nonsense>" is not a valid', client.delete_message, QueueUrl=url, ReceiptHandle="\x01<nonsense>")
refused("AWS.SimpleQueueService.EmptyBatchRequest", "SendMessageBatchRequestEntry", client.send_message_batch, QueueUrl=url, Entries=[])
refused("QueueAlreadyExists", "DelaySeconds", client.create_queue, QueueName="orders", Attributes={"DelaySeconds": "7"})
refused("InvalidMessageContents", "Invalid binary character '#x0' was found in the message body", client.send_message, QueueUrl=url, MessageBody="a\x00b")
refused("InvalidAttributeName", "Unknown Attribute Foobar.", client.get_queue_attributes, QueueUrl=url, AttributeNames=["Foobar"])
client.delete_queue(QueueUrl=url)

print("done")
