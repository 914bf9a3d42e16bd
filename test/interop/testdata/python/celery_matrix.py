# Has Celery make queues and a worker process execute tasks.
import os
import subprocess
import sys
import tempfile

import celery

results = tempfile.TemporaryDirectory()
os.environ["TENAQ_RESULTS"] = results.name

from botocore.exceptions import ClientError
from celery_tasks import app, connected, echo, note, noted, second_time
from kombu import Queue
from report import binary, body, prefix, run, same, say, wrong

patience = 120  # seconds; the worker takes a few to start


def bound(connection, name):
    return app.amqp.queues[name](connection.default_channel)


def create():
    with app.connection_for_write() as connection:
        queue = bound(connection, "jobs")
        same("declared", queue.queue_declare().queue, "jobs")
        same("declared again", queue.queue_declare().queue, "jobs")
        sqs = connection.default_channel.sqs()
        same("queues", [u.split("/")[-1] for u in sqs.list_queues(QueueNamePrefix=prefix)["QueueUrls"]], [prefix + "jobs"])


def fifo():
    for value, key in ("1", "a"), ("2", "b"), ("1", "a"), ("3", "c"):
        note.apply_async([value], queue="orders.fifo", MessageGroupId="g", MessageDeduplicationId=key)
    got = noted.apply_async(queue="orders.fifo", MessageGroupId="g").get(timeout=patience)
    same("executed", [v for v in got if v in "123"], ["1", "2", "3"])


def receive():
    wanted = {"text": body, "bytes": binary, "number": -1.5}
    same("argument", echo.delay(wanted).get(timeout=patience), wanted)


def visibility():
    same("runs", second_time.delay().get(timeout=patience), 2)


def delete():
    with app.connection_for_write() as connection:
        for name in "jobs", "orders.fifo":
            echo.apply_async([name], queue=name).get(timeout=patience)
        worker.terminate()
        same("exit status of the worker", worker.wait(timeout=patience), 0)
        sqs = connection.default_channel.sqs()
        for name in "jobs", "orders.fifo":
            url = sqs.get_queue_url(QueueName=prefix + name)["QueueUrl"]
            counts = "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"
            got = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(counts))["Attributes"]
            same("messages left in " + name, [got[n] for n in counts], ["0", "0"])
            queue = bound(connection, name)
            queue.declare()  # Kombu deletes what it knows a binding of
            queue.delete()
        same("queues", sqs.list_queues(QueueNamePrefix=prefix).get("QueueUrls", []), [])


def refused(code, call):
    try:
        answer = call()
    except ClientError as e:
        same("code", e.response["Error"]["Code"], code)
        return
    raise AssertionError(f"got {answer}, want {code}")


def error():
    with app.connection_for_write() as connection:
        queue = Queue("brief")(connection.default_channel)
        queue.queue_declare()
        sqs = connection.default_channel.sqs()
        sqs.delete_queue(QueueUrl=sqs.get_queue_url(QueueName=prefix + "brief")["QueueUrl"])
        refused("AWS.SimpleQueueService.NonExistentQueue", queue.purge)
    refused("SignatureDoesNotMatch", lambda: connected("wrong", *wrong).send_task("echo", ["x"], queue="jobs"))
    refused("InvalidClientTokenId", lambda: connected("nobody", "TQNOBODY", wrong[1]).send_task("echo", ["x"], queue="jobs"))


def extra():
    same("result", (echo.s("a") | echo.s()).apply_async().get(timeout=patience), "a")


start = [sys.executable, "-B", "-m", "celery", "-A", "celery_tasks", "worker", "--pool=solo", "--loglevel=warning"]
start += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
here = os.path.dirname(os.path.abspath(__file__))
environment = os.environ | {"TENAQ_WORKER": "1"}
with results:
    say(version=celery.__version__)
    run(create)
    with subprocess.Popen(start, cwd=here, env=environment, stdin=subprocess.PIPE, stdout=sys.stderr) as worker:
        try:
            run(extra, fifo, receive, visibility, delete, error)
        finally:
            worker.kill()
