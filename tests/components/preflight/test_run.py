"""The whole run: an account that answers, one that denies, one that throttles, and none at all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config
from moto import mock_aws
from moto.core import set_initial_no_auth_action_count
from typer.testing import CliRunner

from components import node_pools
from components.config import parse
from components.preflight import Account, Check, checks
from components.preflight.__main__ import app, status

REGION = "us-east-1"
ENV = parse(
    {
        "cluster": {"kind": "aws", "region": REGION},
        "node_pools": {
            "core": {"instance_types": ["m5.large"], "min": 2, "max": 3},
            "l4": {"instance_types": ["g5.2xlarge"], "max": 2},
        },
    }
)
PEAK = {"core": 2, "l4": 2}


@pytest.fixture(autouse=True)
def no_real_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")


@pytest.fixture
def moto_account() -> Iterator[None]:
    with mock_aws():
        yield


def account(config: Config | None = None, key: str = "testing", secret: str = "testing") -> Account:
    session = boto3.Session(key, secret, region_name=REGION)
    return Account(session, config) if config else Account(session)


def answer(client: Any, operation: str, response: dict[str, Any]) -> None:
    """Answer an operation that moto does not have."""
    service = client.meta.service_model.service_id.hyphenize()
    reply = AWSResponse("https://example", 200, {}, None)
    client.meta.events.register(f"before-call.{service}.{operation}", lambda **_: (reply, response))


def run(found: Account) -> list[Check]:
    row = {
        "clusterVersion": "1.35",
        "versionStatus": "STANDARD_SUPPORT",
        "endOfStandardSupportDate": datetime(2099, 3, 27, tzinfo=UTC),
    }
    answer(found.client("eks"), "DescribeClusterVersions", {"clusterVersions": [row]})
    answer(found.client("service-quotas"), "GetServiceQuota", {"Quota": {"Value": 64.0}})
    return list(checks(ENV, "dev", node_pools.resolve(ENV), PEAK, found))


@pytest.mark.usefixtures("moto_account")
def test_what_can_be_looked_at_is_told_and_what_cannot_is_not_a_pass() -> None:
    by_name = {(check.place, check.name): check for check in run(account())}
    assert by_name["account", "credentials"].status == "pass"
    assert by_name["cluster", "Kubernetes version"].message == "1.35: standard support until 2099-03-27"
    assert by_name["cluster", "name"].message == "'llm-serving-dev' is free"
    assert by_name["cluster.network", "zones"].status == "pass"
    assert by_name["node pool 'l4'", "instance types offered"].status in ("pass", "warning")
    assert by_name["node pool l4", "vCPU quota"].message.startswith("on-demand G and VT instances: quota 64 vCPUs")
    # moto has no public image parameters: that may not look like a pass.
    assert by_name["node pool 'l4'", "machine image"].status != "pass"


@set_initial_no_auth_action_count(4)
def _limited_run() -> list[Check]:
    iam = boto3.client("iam", region_name=REGION, aws_access_key_id="root", aws_secret_access_key="root")
    iam.create_user(UserName="reader")
    allowed = {"Effect": "Allow", "Action": ["sts:GetCallerIdentity", "ec2:DescribeAvailabilityZones"], "Resource": "*"}
    policy = {"Version": "2012-10-17", "Statement": [allowed]}
    iam.put_user_policy(UserName="reader", PolicyName="few", PolicyDocument=json.dumps(policy))
    key = iam.create_access_key(UserName="reader")["AccessKey"]
    iam.list_users()  # the last action without authorization
    return run(account(key=key["AccessKeyId"], secret=key["SecretAccessKey"]))


@pytest.mark.usefixtures("moto_account")
def test_a_denied_permission_is_said_by_name_and_the_other_checks_go_on() -> None:
    found = {(check.place, check.name): check for check in _limited_run()}
    assert found["cluster.network", "zones"].status == "pass"
    denied = found["node pool 'l4'", "instance types offered"]
    assert denied.status == "unchecked"
    assert denied.message == "could not be checked: DescribeInstanceTypeOfferings was denied (AccessDenied)"
    assert denied.mend == "let the credentials call DescribeInstanceTypeOfferings, or check by hand"
    assert found["cluster", "name"].status == "unchecked"
    assert status(list(found.values())) == 2


@pytest.mark.usefixtures("moto_account")
def test_throttled_calls_are_repeated_and_then_reported_as_not_checked() -> None:
    found = account(Config(retries={"mode": "standard", "max_attempts": 3}))
    calls: list[str] = []

    def throttle(request: Any, **_: Any) -> AWSResponse:
        calls.append(request.url)
        body = b"<Response><Errors><Error><Code>RequestLimitExceeded</Code><Message>slow</Message></Error></Errors></Response>"
        return AWSResponse(request.url, 503, {}, _Raw(body))

    found.client("ec2").meta.events.register("before-send.ec2.DescribeAvailabilityZones", throttle)
    by_name = {(check.place, check.name): check for check in run(found)}
    zones = by_name["cluster.network", "zones"]
    assert zones.status == "unchecked"
    assert zones.message == (
        "could not be checked: DescribeAvailabilityZones was throttled (RequestLimitExceeded, 3 retries)"
    )
    assert len(calls) == 4
    assert by_name["node pool 'l4'", "instance types offered"].status in ("pass", "warning")


@pytest.mark.usefixtures("moto_account")
def test_a_call_that_is_throttled_once_is_repeated_and_passes() -> None:
    found = account(Config(retries={"mode": "standard", "max_attempts": 3}))
    left = [1]

    def throttle(request: Any, **_: Any) -> AWSResponse | None:
        if not left:
            return None
        left.pop()
        body = b"<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>"
        return AWSResponse(request.url, 503, {}, _Raw(body))

    found.client("ec2").meta.events.register_first("before-send.ec2.DescribeAvailabilityZones", throttle)
    by_name = {(check.place, check.name): check for check in run(found)}
    assert not left
    assert by_name["cluster.network", "zones"].status == "pass"


class _Raw:
    """The body of a response, as urllib3 gives it."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        yield self._body


def test_without_credentials_one_line_says_so_and_nothing_is_called() -> None:
    (found,) = run(Account(boto3.Session(region_name=REGION)))
    assert (found.status, found.message) == (
        "unchecked",
        "could not be checked: there are none, so nothing was looked at",
    )


def test_a_cluster_that_is_not_aws_has_nothing_to_check() -> None:
    assert list(checks(parse({}), "local", (), {})) == []


def test_the_command_prints_a_table_and_exits_two_when_something_could_not_be_checked(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text(json.dumps({"config": {"llm-serving:cluster": {"kind": "aws", "region": REGION}}}))
    found = CliRunner().invoke(app, [str(path)])
    assert found.exit_code == 2
    assert "not checked" in found.output


def test_the_command_prints_json_and_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    path = tmp_path / "Pulumi.dev.yaml"
    path.write_text(json.dumps({"config": {"llm-serving:cluster": {"kind": "aws", "region": REGION}}}))
    (found,) = json.loads(CliRunner().invoke(app, [str(path), "--json"]).output)
    assert found["status"] == "unchecked"
    path.write_text("config: {llm-serving:cluster: {kind: aws}}")
    wrong = CliRunner().invoke(app, [str(path)])
    assert wrong.exit_code == 1
    local = tmp_path / "Pulumi.local.yaml"
    local.write_text("config: {}")
    assert CliRunner().invoke(app, [str(local)]).exit_code == 0


@pytest.mark.parametrize(
    ("states", "code"), [(["pass", "warning"], 0), (["pass", "unchecked"], 2), (["unchecked", "error"], 1), ([], 0)]
)
def test_the_exit_status_follows_the_worst(states: list[Any], code: int) -> None:
    assert status([Check("p", "n", state, "m") for state in states]) == code
