# Leads the AWS CLI through the operations. The argument is the folder of its command; the Python of the CLI runs this.
import json
import os
import subprocess
import sys

import awscli.clidriver
from awscli.botocore.session import Session
from report import binary, body, endpoint, md5, md5_of_attributes, prefix, run, same, say, trace, wrong

aws = os.path.join(sys.argv[1], "aws")
os.environ.update(AWS_MAX_ATTEMPTS="1", AWS_PAGER="")
sys.stdout.reconfigure(encoding="utf-8")
sys.stderr.reconfigure(encoding="utf-8")
client = Session().create_client("sqs", endpoint_url=endpoint)  # what the CLI makes its requests with


class Refused(Exception):
    pass


def start(operation, *arguments, output="json", env={}):
    """Starts the CLI. A structure among the arguments becomes JSON. To load the CLI takes a second of a processor each time,
    so this is a fork of a process that has it loaded, and does what the command does."""
    line = [aws, "sqs", operation, "--endpoint-url", endpoint, "--output", output]
    line += [a if isinstance(a, str) else json.dumps(a) for a in arguments]
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.dup2(writer, 1)
            os.dup2(writer, 2)
            os.environ.update(env)
            sys.argv = line
            status = awscli.clidriver.main()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)
    os.close(writer)
    return pid, reader


def end(started):
    """Returns what the CLI has printed."""
    pid, reader = started
    with open(reader, "rb") as f:
        out = f.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 0:
        raise Refused(f"{out.strip()} (exit status {status})")
    return out


def sqs(operation, *arguments, **options):
    out = end(start(operation, *arguments, **options))
    return json.loads(out) if out else {}


def command(*arguments):
    """Runs the command itself."""
    return subprocess.run([aws, *arguments], check=True, stdout=subprocess.PIPE).stdout.decode()


urls = {}


def queue(name, **attributes):
    if name not in urls:
        urls[name] = sqs("create-queue", "--queue-name", prefix + name, "--attributes", attributes)["QueueUrl"]
    return urls[name]


def create():
    url = queue("jobs", VisibilityTimeout="40")
    same("the beginning of the URL", url.startswith(endpoint + "/"), True)
    again = sqs("create-queue", "--queue-name", prefix + "jobs", "--attributes", "VisibilityTimeout=40")
    same("created again", again["QueueUrl"], url)
    got = command("sqs", "get-queue-url", "--endpoint-url", endpoint, "--queue-name", prefix + "jobs", "--output", "text")
    same("GetQueueUrl", got.strip(), url)


def attributes():
    url = queue("jobs")
    sqs("set-queue-attributes", "--queue-url", url, "--attributes", "VisibilityTimeout=50,DelaySeconds=0")
    got = sqs("get-queue-attributes", "--queue-url", url, "--attribute-names", "VisibilityTimeout", "QueueArn")["Attributes"]
    same("attributes", (got["VisibilityTimeout"], got["QueueArn"].split(":")[-1], len(got)), ("50", prefix + "jobs", 2))
    sqs("tag-queue", "--queue-url", url, "--tags", {"empty": "", "env": "x+y/\u00e9"})
    same("tags", sqs("list-queue-tags", "--queue-url", url)["Tags"], {"empty": "", "env": "x+y/\u00e9"})


def fifo():
    url = queue("jobs.fifo", FifoQueue="true")

    def send(text, key):
        return sqs("send-message", "--queue-url", url, "--message-body", text, "--message-group-id", "g", "--message-deduplication-id", key)

    first, second, again = send("1", "a"), send("2", "b"), send("1", "a")
    same("MessageId of a duplicate", again["MessageId"], first["MessageId"])
    same("SequenceNumber of a duplicate", again["SequenceNumber"], first["SequenceNumber"])
    got = sqs("receive-message", "--queue-url", url, "--max-number-of-messages", "10", "--wait-time-seconds", "5", "--attribute-names", "All")
    same("bodies", [m["Body"] for m in got["Messages"]], ["1", "2"])
    want = [("g", d, s["SequenceNumber"]) for d, s in (("a", first), ("b", second))]
    names = "MessageGroupId", "MessageDeduplicationId", "SequenceNumber"
    same("attributes", [tuple(m["Attributes"][n] for n in names) for m in got["Messages"]], want)


def batch():
    url = queue("jobs")
    entries = [{"Id": "a", "MessageBody": "1"}, {"Id": "bad", "MessageBody": "2\x00"}, {"Id": "c", "MessageBody": "3"}]
    sent = sqs("send-message-batch", "--queue-url", url, "--entries", entries)
    same("sent", [(e["Id"], e["MD5OfMessageBody"]) for e in sent["Successful"]], [("a", md5("1")), ("c", md5("3"))])
    same("not sent", [(e["Id"], e["Code"], e["SenderFault"]) for e in sent["Failed"]], [("bad", "InvalidMessageContents", True)])
    got = sqs("receive-message", "--queue-url", url, "--max-number-of-messages", "10", "--wait-time-seconds", "5")["Messages"]
    same("bodies", sorted(m["Body"] for m in got), ["1", "3"])
    entries = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(got)] + [{"Id": "bad", "ReceiptHandle": "nonsense"}]
    deleted = sqs("delete-message-batch", "--queue-url", url, "--entries", entries)
    same("deleted", [e["Id"] for e in deleted["Successful"]], ["0", "1"])
    same("not deleted", [(e["Id"], e["Code"], e["SenderFault"]) for e in deleted["Failed"]], [("bad", "ReceiptHandleIsInvalid", True)])


received = {}


def receive():
    url = queue("jobs")
    text = binary.decode("latin-1")  # the CLI sends it as UTF-8, unless it is given a file
    wanted = {
        "text": {"StringValue": body, "DataType": "String"},
        "number": {"StringValue": "-1.50", "DataType": "Number.euro"},
        "bytes": {"BinaryValue": text, "DataType": "Binary"},
    }
    raw = ["--cli-binary-format", "raw-in-base64-out"] if version.startswith("2.") else []
    poll = start("receive-message", "--queue-url", url, "--wait-time-seconds", "20", "--message-attribute-names", "All", "--attribute-names", "All")
    header = {"AWSTraceHeader": {"StringValue": trace, "DataType": "String"}}
    messages = ["--message-body", body, "--message-attributes", wanted, "--message-system-attributes", header]
    sent = sqs("send-message", "--queue-url", url, *messages, *raw)
    (got,) = json.loads(end(poll))["Messages"]
    received.update(got)
    same("body", got["Body"], body)
    same("MessageId", got["MessageId"], sent["MessageId"])
    same("MD5 of the body", (sent["MD5OfMessageBody"], got["MD5OfBody"]), (md5(body), md5(body)))
    wanted["bytes"]["BinaryValue"] = "AAHDvsO/DQo="  # of the UTF-8
    same("message attributes", got["MessageAttributes"], wanted)
    digest = md5_of_attributes([("text", "String", body), ("number", "Number.euro", "-1.50"), ("bytes", "Binary", text.encode())])
    same("MD5 of the message attributes", (sent["MD5OfMessageAttributes"], got["MD5OfMessageAttributes"]), (digest, digest))
    same("system attributes", (got["Attributes"]["AWSTraceHeader"], got["Attributes"]["ApproximateReceiveCount"]), (trace, "1"))


def visibility():
    url = queue("jobs")
    sqs("change-message-visibility", "--queue-url", url, "--receipt-handle", received["ReceiptHandle"], "--visibility-timeout", "0")
    (got,) = sqs("receive-message", "--queue-url", url, "--wait-time-seconds", "5", "--attribute-names", "ApproximateReceiveCount")["Messages"]
    same("message", (got["MessageId"], got["Attributes"]), (received["MessageId"], {"ApproximateReceiveCount": "2"}))
    received.update(got)


def delete():
    url = queue("jobs")
    sqs("delete-message", "--queue-url", url, "--receipt-handle", received["ReceiptHandle"])
    sqs("set-queue-attributes", "--queue-url", url, "--attributes", "VisibilityTimeout=0")
    same("after it was deleted", sqs("receive-message", "--queue-url", url, "--wait-time-seconds", "1"), {})
    names = "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"
    counts = sqs("get-queue-attributes", "--queue-url", url, "--attribute-names", *names)["Attributes"]
    same("counts", [counts[n] for n in names], ["0", "0"])
    sqs("delete-queue", "--queue-url", url)
    refused("AWS.SimpleQueueService.NonExistentQueue", "get-queue-url", "--queue-name", prefix + "jobs")


def refused(code, operation, *arguments, **options):
    try:
        answer = sqs(operation, *arguments, **options)
    except Refused as e:
        same(f"{code} in the error, {e}", f"An error occurred ({code}) when calling the " in str(e), True)
        return str(e)
    raise AssertionError(f"got {answer}, want {code}")


def error():
    e = refused("AWS.SimpleQueueService.NonExistentQueue", "get-queue-url", "--queue-name", prefix + "nowhere")
    same(f"text of {e}", "The specified queue does not exist" in e, True)
    refused("SignatureDoesNotMatch", "list-queues", env=dict(zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), wrong)))
    refused("InvalidClientTokenId", "list-queues", env={"AWS_ACCESS_KEY_ID": "TQNOBODY"})


def paging():
    urls = sorted(client.create_queue(QueueName=f"{prefix}page-{i:02}")["QueueUrl"] for i in range(25))
    pages = ["list-queues", "--queue-name-prefix", prefix + "page-", "--page-size", "10"]
    same("queues", sorted(sqs(*pages)["QueueUrls"]), urls)
    # As text each page is printed by itself.
    same("sizes of pages", end(start(*pages, "--query", "length(QueueUrls)", output="text")).split(), ["10", "10", "5"])


version = command("--version").split()[0].removeprefix("aws-cli/")
say(version=version)
run(create, attributes, fifo, batch, receive, visibility, delete, error, paging)
