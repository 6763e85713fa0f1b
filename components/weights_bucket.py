"""An S3 bucket for model weights, and roles for the pods that read weights from it and from other places in S3.

Not for: which pods those are (manifests/weights.py reads it off the services).
"""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from components.config import AwsCluster, Environment
from components.eks_cluster import EksOutputs
from components.manifests.iam import bucket_over_tls_only, read_weights
from components.manifests.weights import readers
from components.pod_identity import PodIdentityRole


class WeightsBucket(pulumi.ComponentResource):
    """A private, encrypted bucket. Outputs: `bucket` (name). Destroying it while it holds weights is refused by S3."""

    bucket: pulumi.Output[str]

    def __init__(self, name: str, *, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("llm-serving:aws:WeightsBucket", name, {}, opts)
        child = pulumi.ResourceOptions(parent=self)
        # S3 names are shared by all accounts and in lower case: a prefix, and the provider adds what makes it the only one.
        prefix = name.lower().replace("_", "-")[:36]
        bucket = aws.s3.Bucket(name, bucket_prefix=f"{prefix}-", opts=child)
        aws.s3.BucketPublicAccessBlock(
            name,
            bucket=bucket.bucket,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=child,
        )
        aws.s3.BucketOwnershipControls(
            name,
            bucket=bucket.bucket,
            rule=aws.s3.BucketOwnershipControlsRuleArgs(object_ownership="BucketOwnerEnforced"),
            opts=child,
        )
        aws.s3.BucketServerSideEncryptionConfiguration(
            name,
            bucket=bucket.bucket,
            rules=[
                aws.s3.BucketServerSideEncryptionConfigurationRuleArgs(
                    apply_server_side_encryption_by_default=aws.s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
                        sse_algorithm="AES256"
                    )
                )
            ],
            opts=child,
        )
        aws.s3.BucketVersioning(
            name,
            bucket=bucket.bucket,
            versioning_configuration=aws.s3.BucketVersioningVersioningConfigurationArgs(status="Enabled"),
            opts=child,
        )
        aws.s3.BucketLifecycleConfiguration(
            name,
            bucket=bucket.bucket,
            # Weights are hundreds of GiB: overwritten versions and broken uploads would be paid for without being seen.
            rules=[
                aws.s3.BucketLifecycleConfigurationRuleArgs(
                    id="forget-old-versions",
                    status="Enabled",
                    filter=aws.s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=""),
                    noncurrent_version_expiration=aws.s3.BucketLifecycleConfigurationRuleNoncurrentVersionExpirationArgs(
                        noncurrent_days=30
                    ),
                    abort_incomplete_multipart_upload=aws.s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs(
                        days_after_initiation=3
                    ),
                )
            ],
            opts=child,
        )
        aws.s3.BucketPolicy(name, bucket=bucket.bucket, policy=bucket.arn.apply(bucket_over_tls_only), opts=child)
        self.bucket = bucket.bucket
        self.register_outputs({"bucket": bucket.bucket})


def weights(
    env: Environment, config: AwsCluster, cluster: EksOutputs, opts: pulumi.ResourceOptions
) -> tuple[pulumi.Output[str] | None, tuple[PodIdentityRole, ...]]:
    """The bucket's name, where one is wanted, and a role for each service account that reads weights."""
    bucket = WeightsBucket(f"{cluster.name}-weights", opts=opts).bucket if config.weights_bucket else None
    roles = tuple(
        PodIdentityRole(
            f"{cluster.name}-weights-{namespace}-{account}",
            cluster_name=cluster.cluster_name,
            namespace=namespace,
            service_account=account,
            region=config.region,
            policy=_policy(config.region, places, bucket),
            opts=opts,
        )
        for (namespace, account), places in readers(env).items()
        if bucket is not None or places
    )
    return bucket, roles


def _policy(region: str, places: tuple[str, ...], bucket: pulumi.Output[str] | None) -> pulumi.Input[str]:
    if bucket is None:
        return read_weights(region, places)
    return bucket.apply(lambda name: read_weights(region, [*places, name]))
