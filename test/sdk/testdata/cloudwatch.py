# Leads alarms and metrics through boto3: endpoint and protocol are the arguments. The client takes the protocol from the
# model of the service that comes with it; here it is given a copy in which there is only one, as models of earlier
# versions have it.
import gzip
import json
import os
import sys
import tempfile
from datetime import datetime, timedelta, timezone

import boto3
import botocore
import botocore.session
from botocore.exceptions import ClientError

endpoint, protocol = sys.argv[1], sys.argv[2]
os.environ.update(AWS_EC2_METADATA_DISABLED="true", AWS_CONFIG_FILE=os.devnull, AWS_SHARED_CREDENTIALS_FILE=os.devnull)
os.environ.update(NO_PROXY="127.0.0.1")

part = os.path.join("cloudwatch", "2010-08-01")
with gzip.open(os.path.join(os.path.dirname(botocore.__file__), "data", part, "service-2.json.gz")) as f:
    model = json.load(f)
model["metadata"]["protocol"] = protocol
model["metadata"]["protocols"] = [protocol]
if protocol == "query":
    model["metadata"].pop("awsQueryCompatible", None)
models = tempfile.mkdtemp()
os.makedirs(os.path.join(models, part))
with open(os.path.join(models, part, "service-2.json"), "w") as f:
    json.dump(model, f)
core = botocore.session.get_session()
core.get_component("data_loader").search_paths.insert(0, models)
session = boto3.Session("AKIDEXAMPLE", "secret", region_name="us-east-1", botocore_session=core)
client = session.client(
    "cloudwatch",
    endpoint_url=endpoint,
    config=botocore.config.Config(retries={"total_max_attempts": 1}, request_min_compression_size_bytes=1000),
)

sent = []
client.meta.events.register("before-send.cloudwatch.*", lambda request, **_: sent.append(request.headers))


def same(what, got, want):
    if got != want:
        raise SystemExit(f"{what}: got {got!r}, want {want!r}")


alarm = dict(
    Namespace="AWS/SQS",
    MetricName="ApproximateNumberOfMessagesVisible",
    Dimensions=[{"Name": "QueueName", "Value": "orders-dlq"}],
    Statistic="Sum",
    Period=60,
    EvaluationPeriods=1,
    Threshold=0.0,
    ComparisonOperator="GreaterThanThreshold",
    AlarmActions=["arn:aws:sns:us-east-1:000000000000:log"],
    AlarmDescription="dead letters \N{EM DASH} \N{GREEK SMALL LETTER ALPHA} & <others>",
    TreatMissingData="ignore",  # a minute may end at any step
)
names = [f"alarm-{i}" for i in range(5)]
for name in names:
    client.put_metric_alarm(AlarmName=name, Tags=[{"Key": "team", "Value": "orders"}], **alarm)
want = {"query": "application/x-www-form-urlencoded", "json": "application/x-amz-json-1.0", "smithy-rpc-v2-cbor": "application/cbor"}
kind = sent[0]["Content-Type"]
same("content type", (kind.decode() if isinstance(kind, bytes) else kind).split(";")[0], want[protocol])
client.get_waiter("alarm_exists").wait(AlarmNames=["alarm-4"], WaiterConfig={"Delay": 1, "MaxAttempts": 5})
pages = client.get_paginator("describe_alarms").paginate(AlarmNamePrefix="alarm-", PaginationConfig={"PageSize": 2})
same("names", [a["AlarmName"] for page in pages for a in page["MetricAlarms"]], names)
a = client.describe_alarms_for_metric(**{k: alarm[k] for k in ("Namespace", "MetricName", "Dimensions", "Statistic")})["MetricAlarms"][0]
same("alarm", {k: a[k] for k in alarm}, alarm)
same("state", a["StateValue"], "INSUFFICIENT_DATA")
same("time", abs(datetime.now(timezone.utc) - a["StateUpdatedTimestamp"]) < timedelta(hours=1), True)

client.set_alarm_state(AlarmName="alarm-0", StateValue="ALARM", StateReason="a test", StateReasonData='{"by": "hand"}')
client.disable_alarm_actions(AlarmNames=["alarm-0"])
a = client.describe_alarms(AlarmNames=["alarm-0"])["MetricAlarms"][0]
same("state", (a["StateValue"], a["StateReason"], a["StateReasonData"], a["ActionsEnabled"]), ("ALARM", "a test", '{"by": "hand"}', False))
client.enable_alarm_actions(AlarmNames=["alarm-0"])
same("history", len(client.describe_alarm_history(AlarmName="alarm-0")["AlarmHistoryItems"]), 1)

client.tag_resource(ResourceARN=a["AlarmArn"], Tags=[{"Key": "empty", "Value": ""}, {"Key": "since", "Value": "2026"}])
client.untag_resource(ResourceARN=a["AlarmArn"], TagKeys=["since"])
same("tags", client.list_tags_for_resource(ResourceARN=a["AlarmArn"])["Tags"], [{"Key": "empty", "Value": ""}, {"Key": "team", "Value": "orders"}])

metrics = [{"Id": "ratio", "Expression": "d / s", "Label": "deleted over sent", "ReturnData": True}]
for i, name in (("d", "NumberOfMessagesDeleted"), ("s", "NumberOfMessagesSent")):
    metric = {"Namespace": "AWS/SQS", "MetricName": name, "Dimensions": [{"Name": "QueueName", "Value": "orders"}]}
    metrics.append({"Id": i, "MetricStat": {"Metric": metric, "Period": 900, "Stat": "Sum"}, "ReturnData": False})
client.put_metric_alarm(AlarmName="math", Metrics=metrics, EvaluationPeriods=1, Threshold=1.05, ComparisonOperator="GreaterThanThreshold")
same("queries", client.describe_alarms(AlarmNames=["math"])["MetricAlarms"][0]["Metrics"], metrics)


def refused(exception, code, status, call, **kwargs):
    try:
        call(**kwargs)
    except exception as e:
        same("code", e.response["Error"]["Code"], code)
        same("status", e.response["ResponseMetadata"]["HTTPStatusCode"], status)
        same("request id", len(e.response["ResponseMetadata"]["RequestId"]), 36)
    else:
        raise SystemExit(f"{call.__name__} succeeds")


refused(client.exceptions.ResourceNotFound, "ResourceNotFound", 404, client.delete_alarms, AlarmNames=["nothing"])
refused(client.exceptions.ResourceNotFoundException, "ResourceNotFoundException", 404, client.list_tags_for_resource, ResourceARN=a["AlarmArn"] + "x")
refused(client.exceptions.InvalidNextToken, "InvalidNextToken", 400, client.describe_alarms, NextToken="x")
refused(client.exceptions.InvalidFormatFault, "InvalidFormat", 400, client.set_alarm_state, AlarmName="math", StateValue="OK", StateReason="", StateReasonData="x")
refused(ClientError, "ValidationError", 400, client.put_metric_alarm, AlarmName="p99", **(alarm | {"AlarmActions": ["nobody"]}))
refused(ClientError, "InvalidAction", 400, client.list_dashboards)
put = client.put_metric_data
refused(client.exceptions.MissingRequiredParameterException, "MissingParameter", 400, put, Namespace="Shop", MetricData=[{"MetricName": "Orders"}])
refused(client.exceptions.InvalidParameterValueException, "InvalidParameterValue", 400, put, Namespace="AWS/x", MetricData=[{"MetricName": "Orders", "Value": 1}])
refused(client.exceptions.InvalidParameterCombinationException, "InvalidParameterCombination", 400, put, Namespace="Shop", MetricData=[{"MetricName": "Orders", "Value": 1, "Values": [1]}])

at = datetime.now(timezone.utc).replace(second=0, microsecond=0) - timedelta(hours=1)
site = [{"Name": "Site", "Value": "b"}]
data = [{"MetricName": "Orders", "Dimensions": site, "Unit": "Count", "Timestamp": at + timedelta(minutes=i), "Value": i + 0.25} for i in range(20)]
data += [{"MetricName": f"m{i:03}", "StatisticValues": {"SampleCount": 2, "Sum": 5, "Minimum": 1, "Maximum": 4}} for i in range(500)]
sent.clear()
put(Namespace="Shop", MetricData=data)
encoding = sent[0].get("Content-Encoding")
same("content encoding", encoding.decode() if isinstance(encoding, bytes) else encoding, "gzip")
points = client.get_metric_statistics(
    Namespace="Shop", MetricName="Orders", Dimensions=site, StartTime=at, EndTime=at + timedelta(minutes=20), Period=600, Statistics=["Sum"]
)["Datapoints"]
same("statistics", points, [{"Timestamp": at + timedelta(minutes=10 * i), "Sum": s, "Unit": "Count"} for i, s in enumerate((47.5, 147.5))])
queries = [
    {"Id": i, "MetricStat": {"Metric": {"Namespace": "Shop", "MetricName": m, "Dimensions": d}, "Period": 60, "Stat": "Maximum"}}
    for i, m, d in (("orders", "Orders", site), ("m", "m007", []))
]
got = {"orders": [], "m": []}
pages = client.get_paginator("get_metric_data").paginate(
    MetricDataQueries=queries, StartTime=at, EndTime=at + timedelta(hours=2), ScanBy="TimestampAscending", PaginationConfig={"PageSize": 7}
)
for page in pages:
    for r in page["MetricDataResults"]:
        got[r["Id"]] += r["Values"]
same("data", got, {"orders": [i + 0.25 for i in range(20)], "m": [4.0]})
listed = client.get_paginator("list_metrics").paginate(Namespace="Shop")
same("metrics", sum(len(page["Metrics"]) for page in listed), 501)

client.delete_alarms(AlarmNames=names + ["math"])
same("alarms", client.describe_alarms()["MetricAlarms"], [])
print("done")
