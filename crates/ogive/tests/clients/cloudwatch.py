"""Puts values of two queues two minutes back, with the client of AWS: cloudwatch.py ENDPOINT."""

import datetime
import sys

import boto3

client = boto3.client(
    "cloudwatch", endpoint_url=sys.argv[1], region_name="eu-west-1", aws_access_key_id="id", aws_secret_access_key="secret"
)
minute = datetime.datetime.now(datetime.timezone.utc).replace(second=0, microsecond=0)
for queue, values in (("orders", (1, 3)), ("mail", (7,))):
    for value in values:
        data = {
            "MetricName": "QueueAge",
            "Dimensions": [{"Name": "QueueName", "Value": queue}],
            "Timestamp": minute - datetime.timedelta(minutes=2),
            "Value": value,
        }
        client.put_metric_data(Namespace="Shop", MetricData=[data])
print("put")
