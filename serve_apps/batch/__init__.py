"""Batch inference over files: Ray Data LLM around vLLM engines, run as a job."""
