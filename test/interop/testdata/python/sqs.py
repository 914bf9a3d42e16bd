# Leads boto3 through the operations, whichever protocol it speaks.
import threading
import time

import boto3
from botocore.config import Config
from report import binary, body, endpoint, md5, md5_of_attributes, prefix, run, same, say, trace, wrong

once = Config(retries={"total_max_attempts": 1})
sqs = boto3.client("sqs", endpoint_url=endpoint, config=once)
# What they were called before there was a second kind of system attributes.
known = sqs.meta.service_model.operation_model("ReceiveMessage").input_shape.members
system = "MessageSystemAttributeNames" if "MessageSystemAttributeNames" in known else "AttributeNames"


def queue(name, **attributes):
    return sqs.create_queue(QueueName=prefix + name, Attributes=attributes)["QueueUrl"]


def create():
    url = sqs.create_queue(QueueName=prefix + "create", Attributes={"VisibilityTimeout": "40"})["QueueUrl"]
    same("the beginning of the URL", url.startswith(endpoint + "/"), True)
    same("created again", queue("create", VisibilityTimeout="40"), url)
    same("GetQueueUrl", sqs.get_queue_url(QueueName=prefix + "create")["QueueUrl"], url)
    e = refused(sqs.create_queue, QueueName=prefix + "create", Attributes={"VisibilityTimeout": "41"})
    same("code for other attributes", e.response["Error"]["Code"], "QueueAlreadyExists")


def attributes():
    url = queue("attributes")
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "50", "DelaySeconds": "0"})
    got = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout", "QueueArn"])["Attributes"]
    same("attributes", (got["VisibilityTimeout"], got["QueueArn"].split(":")[-1], len(got)), ("50", prefix + "attributes", 2))
    every = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    same("all attributes", (every["VisibilityTimeout"], every["MessageRetentionPeriod"]), ("50", "345600"))
    sqs.tag_queue(QueueUrl=url, Tags={"team": "a b", "empty": "", "env": "x+y/\u00e9"})
    sqs.untag_queue(QueueUrl=url, TagKeys=["team"])
    same("tags", sqs.list_queue_tags(QueueUrl=url)["Tags"], {"empty": "", "env": "x+y/\u00e9"})


def fifo():
    url = queue("jobs.fifo", FifoQueue="true")
    sends = [("1", "a"), ("2", "b"), ("1", "a")]
    first, second, again = (sqs.send_message(QueueUrl=url, MessageBody=b, MessageGroupId="g", MessageDeduplicationId=d) for b, d in sends)
    same("MessageId of a duplicate", again["MessageId"], first["MessageId"])
    same("SequenceNumber of a duplicate", again["SequenceNumber"], first["SequenceNumber"])
    same("order of sequence numbers", int(first["SequenceNumber"]) < int(second["SequenceNumber"]), True)
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=5, **{system: ["All"]})["Messages"]
    same("bodies", [m["Body"] for m in got], ["1", "2"])
    want = [("g", d, s["SequenceNumber"]) for d, s in (("a", first), ("b", second))]
    same("attributes", [tuple(m["Attributes"][n] for n in ("MessageGroupId", "MessageDeduplicationId", "SequenceNumber")) for m in got], want)


def batch():
    url = queue("batch")
    entries = [{"Id": "a", "MessageBody": "1"}, {"Id": "bad", "MessageBody": "2\x00"}, {"Id": "c", "MessageBody": "3"}]
    sent = sqs.send_message_batch(QueueUrl=url, Entries=entries)
    same("sent", [(e["Id"], e["MD5OfMessageBody"]) for e in sent["Successful"]], [("a", md5("1")), ("c", md5("3"))])
    same("not sent", [(e["Id"], e["Code"], e["SenderFault"]) for e in sent["Failed"]], [("bad", "InvalidMessageContents", True)])
    got = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=5)["Messages"]
    same("bodies", sorted(m["Body"] for m in got), ["1", "3"])
    entries = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(got)] + [{"Id": "bad", "ReceiptHandle": "nonsense"}]
    deleted = sqs.delete_message_batch(QueueUrl=url, Entries=entries)
    same("deleted", [e["Id"] for e in deleted["Successful"]], ["0", "1"])
    same("not deleted", [(e["Id"], e["Code"], e["SenderFault"]) for e in deleted["Failed"]], [("bad", "ReceiptHandleIsInvalid", True)])


def receive():
    url = queue("receive")
    wanted = {
        "text": {"DataType": "String", "StringValue": body},
        "number": {"DataType": "Number.euro", "StringValue": "-1.50"},
        "bytes": {"DataType": "Binary", "BinaryValue": binary},
    }
    sent = {}

    def send():
        time.sleep(0.5)  # by then the poll waits, and nothing is wrong if it does not
        sent.update(
            sqs.send_message(
                QueueUrl=url,
                MessageBody=body,
                MessageAttributes=wanted,
                MessageSystemAttributes={"AWSTraceHeader": {"DataType": "String", "StringValue": trace}},
            )
        )

    sender = threading.Thread(target=send)
    sender.start()
    received = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=20, MessageAttributeNames=["All"], **{system: ["All"]})
    sender.join()
    (got,) = received["Messages"]
    same("body", got["Body"], body)
    same("MessageId", got["MessageId"], sent["MessageId"])
    same("MD5 of the body", (sent["MD5OfMessageBody"], got["MD5OfBody"]), (md5(body), md5(body)))
    same("message attributes", got["MessageAttributes"], wanted)
    digest = md5_of_attributes((n, a["DataType"], a.get("StringValue", a.get("BinaryValue"))) for n, a in wanted.items())
    same("MD5 of the message attributes", (sent["MD5OfMessageAttributes"], got["MD5OfMessageAttributes"]), (digest, digest))
    same("trace header", got["Attributes"]["AWSTraceHeader"], trace)
    same("MD5 of the system attributes", sent["MD5OfMessageSystemAttributes"], md5_of_attributes([("AWSTraceHeader", "String", trace)]))
    same("receive count", got["Attributes"]["ApproximateReceiveCount"], "1")
    times = [int(got["Attributes"][n]) / 1000 for n in ("SentTimestamp", "ApproximateFirstReceiveTimestamp")]
    same("times", time.time() - 3600 < times[0] <= times[1] < time.time() + 3600, True)
    same("SenderId", got["Attributes"]["SenderId"][:4], "AIDA")


def visibility():
    url = queue("visibility")
    sqs.send_message(QueueUrl=url, MessageBody="x")
    (got,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    same("while it is hidden", "Messages" in sqs.receive_message(QueueUrl=url), False)
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"], VisibilityTimeout=0)
    (got,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5, **{system: ["ApproximateReceiveCount"]})["Messages"]
    same("attributes", got["Attributes"], {"ApproximateReceiveCount": "2"})
    changes = [{"Id": "a", "ReceiptHandle": got["ReceiptHandle"], "VisibilityTimeout": 60}]
    changed = sqs.change_message_visibility_batch(QueueUrl=url, Entries=changes)
    same("batch", (changed["Successful"], "Failed" in changed), ([{"Id": "a"}], False))


def delete():
    url = queue("delete", VisibilityTimeout="0")
    sqs.send_message(QueueUrl=url, MessageBody="x")
    (got,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"])
    same("after it was deleted", "Messages" in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=1), False)
    sqs.delete_queue(QueueUrl=url)
    same("queues", "QueueUrls" in sqs.list_queues(QueueNamePrefix=prefix + "delete"), False)


def refused(call, **arguments):
    try:
        answer = call(**arguments)
    except sqs.exceptions.ClientError as e:
        return e
    except Exception as e:
        raise AssertionError(f"{e!r} is no ClientError of the client") from e
    raise AssertionError(f"got {answer}, want it refused")


def error():
    e = refused(sqs.get_queue_url, QueueName=prefix + "nowhere")
    same("class", isinstance(e, sqs.exceptions.QueueDoesNotExist), True)
    same("code", e.response["Error"]["Code"], "AWS.SimpleQueueService.NonExistentQueue")
    same("status", e.response["ResponseMetadata"]["HTTPStatusCode"], 400)
    same("type", e.response["Error"].get("Type"), "Sender")
    same("request id", len(e.response["ResponseMetadata"]["RequestId"]), 36)
    for code, key in ("SignatureDoesNotMatch", wrong), ("InvalidClientTokenId", ("TQNOBODY", wrong[1])):
        other = boto3.client("sqs", endpoint_url=endpoint, config=once, aws_access_key_id=key[0], aws_secret_access_key=key[1])
        e = refused(other.list_queues)
        same("code", e.response["Error"]["Code"], code)
        same("status", e.response["ResponseMetadata"]["HTTPStatusCode"], 403)


def paging():
    urls = sorted(queue(f"page-{i:02}") for i in range(25))
    pages = list(sqs.get_paginator("list_queues").paginate(QueueNamePrefix=prefix + "page-", PaginationConfig={"PageSize": 10}))
    same("sizes of pages", [len(p["QueueUrls"]) for p in pages], [10, 10, 5])
    same("queues", sorted(u for p in pages for u in p["QueueUrls"]), urls)


def environment():
    url = queue("environment")
    same("queues", boto3.client("sqs", config=once).list_queues(QueueNamePrefix=prefix + "environment")["QueueUrls"], [url])


say(version=boto3.__version__)
reads_environment = tuple(int(part) for part in boto3.__version__.split(".")[:2]) >= (1, 28)
run(create, attributes, fifo, batch, receive, visibility, delete, error, paging, *[environment] * reads_environment)
