"""Arguments of the OpenAI app. Imported by the components that write them and by the worker that reads them: pydantic only.

The field names of LLMConfig are Ray Serve LLM's own (python/ray/llm/_internal/serve/core/configs/llm_config.py, 2.60.0), so what
is written here is what Ray reads; Ray judges the values.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=())


class ModelLoading(_Strict):
    """Name and weights of a model."""

    model_id: str
    """Name clients use."""
    model_source: str | dict[str, Any] | None = None
    """Hugging Face id, local folder, or {bucket_uri: ...}."""
    tokenizer_source: str | None = None
    """Tokenizer, when it is not with the weights."""


class LLMConfigArgs(_Strict):
    """One engine deployment, as Ray's LLMConfig takes it."""

    model_loading_config: ModelLoading
    """Name and weights."""
    llm_engine: Literal["vLLM"] = "vLLM"
    """The engine."""
    engine_kwargs: dict[str, Any] = {}
    """vLLM engine arguments."""
    accelerator_type: str | None = None
    """Ray accelerator type."""
    accelerator_config: dict[str, Any] | None = None
    """{kind: cpu} for an engine on CPU."""
    placement_group_config: dict[str, Any] | None = None
    """bundle_per_worker or bundles, and strategy."""
    lora_config: dict[str, Any] | None = None
    """LoRA adapters."""
    deployment_config: dict[str, Any] = {}
    """Ray Serve deployment options."""
    runtime_env: dict[str, Any] = {}
    """env_vars of the engine."""
    experimental_configs: dict[str, Any] = {}
    """Ray Serve LLM experimental settings."""
    log_engine_metrics: bool = True
    """vLLM metrics in Ray's metrics."""


class OpenAIChatArgs(_Strict):
    """What the app serves: models side by side, or one model with prefill and decode apart, or one data-parallel model."""

    llm_configs: tuple[LLMConfigArgs, ...] = ()
    """Models side by side."""
    prefill_config: LLMConfigArgs | None = None
    """Prefill engines (with decode_config)."""
    decode_config: LLMConfigArgs | None = None
    """Decode engines (with prefill_config)."""
    llm_config: LLMConfigArgs | None = None
    """One data-parallel model."""
    ingress_deployment_config: dict[str, Any] = Field(default={})
    """Ray Serve options of the OpenAI ingress."""

    @model_validator(mode="after")
    def _one_form(self) -> OpenAIChatArgs:
        forms = [
            bool(self.llm_configs),
            self.prefill_config is not None or self.decode_config is not None,
            self.llm_config is not None,
        ]
        if sum(forms) != 1:
            raise ValueError("give exactly one of: llm_configs; prefill_config and decode_config; llm_config")
        if (self.prefill_config is None) != (self.decode_config is None):
            raise ValueError("prefill_config and decode_config go together")
        return self

    def dump(self) -> dict[str, Any]:
        """As it is written into serveConfigV2: only what was given."""
        return self.model_dump(mode="json", exclude_unset=True)
