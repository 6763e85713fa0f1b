"""The engine environment: a Debian root file system, Ray Serve and vLLM for CPU in it, and a small chat model.

Made once into the cache; local/images packs it, tests and tools run code in it. Not for anything that a GPU node runs.
"""
