from __future__ import annotations

import json

from components.config import parse
from components.manifests.iam import read_weights
from components.manifests.weights import readers


def test_a_service_account_reads_what_its_models_name_and_nothing_else() -> None:
    env = parse(
        {
            "services": {
                "chat": {
                    "namespace": "chat",
                    "service_account": "engine",
                    "models": {
                        "a": {"model": "Qwen/Qwen3-8B", "source": "s3://weights/qwen3/8b/"},
                        "b": {"model": "Qwen/Qwen3-8B", "lora": {"path": "s3://adapters"}},
                        "c": {"model": "Qwen/Qwen3-8B"},
                    },
                },
                "other": {"namespace": "other", "models": {"a": {"model": "x", "source": "s3://secret"}}},
            }
        }
    )
    assert readers(env) == {("chat", "engine"): ("adapters", "weights/qwen3/8b")}


def test_a_folder_is_listed_and_read_alone_and_a_bucket_as_a_whole() -> None:
    policy = json.loads(read_weights("us-east-1", ["adapters", "weights/qwen3/8b"]))
    listing, folder, objects = policy["Statement"]
    assert listing["Resource"] == ["arn:aws:s3:::adapters"]
    assert (folder["Resource"], folder["Condition"]) == (
        "arn:aws:s3:::weights",
        {"StringLike": {"s3:prefix": ["qwen3/8b", "qwen3/8b/*"]}},
    )
    assert objects["Resource"] == ["arn:aws:s3:::adapters/*", "arn:aws:s3:::weights/qwen3/8b/*"]
    assert {action for each in policy["Statement"] for action in each["Action"]} == {"s3:GetObject", "s3:ListBucket"}


def test_arns_are_those_of_the_regions_partition() -> None:
    assert "arn:aws-cn:s3:::weights" in read_weights("cn-north-1", ["weights"])
    assert "arn:aws-us-gov:s3:::weights" in read_weights("us-gov-west-1", ["weights"])
