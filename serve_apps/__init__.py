"""Serve apps: one folder each, with typed args (args.py: pydantic only) and a builder (app.py: ray at the top, vllm inside the replica)."""

# The apps a service may name, and where Serve finds them. To add one: a folder with args.py and app.py, and a row here.
APPS: dict[str, str] = {
    "openai_chat": "serve_apps.openai_chat.app:build",
}
