# Uses keys of three parts, as temporary ones are, that may send and not receive.
import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from report import endpoint, prefix, same

once = Config(retries={"total_max_attempts": 1})
session = boto3.Session()
keys = session.get_credentials()
same("session token", bool(keys.token), True)
sqs = session.client("sqs", endpoint_url=endpoint, config=once)
url = sqs.create_queue(QueueName=prefix + "jobs")["QueueUrl"]
sqs.send_message(QueueUrl=url, MessageBody="x")


def refused(code, text, client):
    try:
        answer = client.receive_message(QueueUrl=url)
    except ClientError as e:
        error = e.response["Error"]
        same("error", (error["Code"], text in error["Message"], e.response["ResponseMetadata"]["HTTPStatusCode"]), (code, True, 403))
        return
    raise SystemExit(f"got {answer}, want {code}")


refused("AccessDenied", "sqs:receivemessage", sqs)
other = boto3.client(
    "sqs",
    endpoint_url=endpoint,
    config=once,
    aws_access_key_id=keys.access_key,
    aws_secret_access_key=keys.secret_key,
    aws_session_token=keys.token[:-1],
)
refused("InvalidClientTokenId", "security token", other)
print("done")
