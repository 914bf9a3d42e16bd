# Sends through a proxy that loses the first answer to each send, with a botocore that speaks the Query protocol. The
# arguments are the endpoint, the queue URL, a key id and its secret. Prints the message ids.
import os
import sys

import botocore.config
import botocore.session

os.environ.update(AWS_EC2_METADATA_DISABLED="true", AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull)
os.environ.update(NO_PROXY="127.0.0.1")


def retried(answer):
    metadata = answer["ResponseMetadata"]
    assert metadata["RetryAttempts"] == 1, metadata
    assert metadata["HTTPHeaders"].get("tenaq-retried") == "true", metadata


endpoint, url, key, secret = sys.argv[1:]
for mode in "legacy", "standard":
    session = botocore.session.get_session()
    session.set_credentials(key, secret)
    client = session.create_client(
        "sqs",
        region_name="us-east-1",
        endpoint_url=endpoint,
        config=botocore.config.Config(retries={"total_max_attempts": 3, "mode": mode}),
    )
    assert client.meta.service_model.metadata["protocol"] == "query", client.meta.service_model.metadata
    one = client.send_message(QueueUrl=url, MessageBody="one")
    retried(one)
    entries = [{"Id": "a", "MessageBody": "two"}, {"Id": "b", "MessageBody": "three", "DelaySeconds": 0}]
    batch = client.send_message_batch(QueueUrl=url, Entries=entries)
    retried(batch)
    for message in [one] + batch["Successful"]:
        print(message["MessageId"])
print("done")
