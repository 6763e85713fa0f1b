"""An S3 that pods reach: moto as a server on this machine's own address of the link to the node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import boto3
from moto.server import ThreadedMotoServer

from local.settings import from_environment
from tests.e2e.modes import stacks

SECRET = "bucket"
REGION = "us-east-1"
KEYS = {"id": "testing", "key": "testing"}  # moto takes any


@contextmanager
def serving(name: str) -> Iterator[Bucket]:
    """An empty bucket of this name, for as long as the block runs."""
    server = ThreadedMotoServer(ip_address=str(from_environment().host_address), port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield Bucket(name, f"http://{host}:{port}")
    finally:
        server.stop()


class Bucket:
    """A bucket, and what pods must know to reach it."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url
        keys = {"aws_access_key_id": KEYS["id"], "aws_secret_access_key": KEYS["key"]}
        self.client: Any = boto3.client("s3", endpoint_url=url, region_name=REGION, **keys)
        self.client.create_bucket(Bucket=name)

    def put(self, key: str, content: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=key, Body=content)

    def read(self, folder: str) -> dict[str, bytes]:
        """What is in a folder, by key."""
        found = self.client.list_objects_v2(Bucket=self.name, Prefix=f"{folder}/").get("Contents", [])
        keys = sorted(entry["Key"] for entry in found)
        return {key: self.client.get_object(Bucket=self.name, Key=key)["Body"].read() for key in keys}

    def secret(self) -> dict[str, Any]:
        """The Secret with its keys."""
        return stacks.secret(SECRET, KEYS)

    def service(self) -> dict[str, Any]:
        """What a service states to reach it: the address as environment, the keys by reference."""
        return {
            "env": {"AWS_ENDPOINT_URL": self.url, "AWS_DEFAULT_REGION": REGION},
            "secret_env": {
                "AWS_ACCESS_KEY_ID": {"secret": SECRET, "key": "id"},
                "AWS_SECRET_ACCESS_KEY": {"secret": SECRET, "key": "key"},
            },
        }
