# What the worker of celery_matrix.py executes, and how both reach the queues.
import os
import sys
import threading

from celery import Celery
from celery.exceptions import Reject
from kombu import Queue
from kombu.utils.url import safequote
from report import endpoint, prefix


def connected(name, key, secret):
    """Returns an application whose broker is the server."""
    return Celery(
        name,
        broker=f"sqs://{safequote(key)}:{safequote(secret)}@{endpoint.removeprefix('http://')}//",
        backend="file://" + os.environ["TENAQ_RESULTS"],
        broker_connection_retry_on_startup=False,
        broker_transport_options={
            "region": os.environ["AWS_REGION"],
            "is_secure": False,
            "queue_name_prefix": prefix,
            "wait_time_seconds": 1,
            "polling_interval": 0.01,
            "visibility_timeout": 300,
        },
        task_queues=[Queue("jobs", routing_key="jobs"), Queue("orders.fifo", routing_key="orders.fifo")],
        task_default_queue="jobs",
        worker_prefetch_multiplier=10,
        worker_enable_remote_control=False,
    )


app = connected("matrix", os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"])
runs = []


@app.task
def echo(value):
    return value


@app.task
def note(value):
    runs.append(value)


@app.task
def noted():
    return runs


@app.task(acks_late=True)
def second_time():
    """Gives its message back when it is executed first."""
    runs.append("second_time")
    if runs.count("second_time") == 1:
        raise Reject("not yet", requeue=True)
    return runs.count("second_time")


def end_with_parent():
    sys.stdin.read()
    os._exit(1)


if os.environ.get("TENAQ_WORKER"):
    threading.Thread(target=end_with_parent, daemon=True).start()
