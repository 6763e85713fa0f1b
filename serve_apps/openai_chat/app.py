"""The OpenAI app: Ray Serve LLM's own builders around vLLM engines. Serve reaches `build` by import path.

Nothing is loaded at import and no environment is read; vllm is imported by Ray inside its tasks and replicas.
"""

from __future__ import annotations

from typing import Any

from ray.serve import Application
from ray.serve.llm import LLMConfig, build_dp_openai_app, build_openai_app, build_pd_openai_app

from .args import LLMConfigArgs, OpenAIChatArgs


def _ray(config: LLMConfigArgs) -> LLMConfig:
    return LLMConfig(**config.model_dump(exclude_unset=True))


def build(args: dict[str, Any]) -> Application:
    """Build the application. Raises pydantic.ValidationError for wrong args and Ray's own errors for wrong values."""
    typed = OpenAIChatArgs.model_validate(args)
    ingress = {"ingress_deployment_config": typed.ingress_deployment_config} if typed.ingress_deployment_config else {}
    if typed.llm_config is not None:
        return build_dp_openai_app({"llm_config": _ray(typed.llm_config), **ingress})
    if typed.prefill_config is not None and typed.decode_config is not None:
        return build_pd_openai_app(
            {"prefill_config": _ray(typed.prefill_config), "decode_config": _ray(typed.decode_config), **ingress}
        )
    return build_openai_app({"llm_configs": [_ray(config) for config in typed.llm_configs], **ingress})
