"""OpenAI-compatible chat, completions and embeddings on Ray Serve LLM."""
