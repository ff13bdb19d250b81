"""A real model server for smoke runs, and the smoke runs themselves.

`packages` fetches and checks, `launch` starts, `serve` is what runs inside the
virtual environment; `delegate`, `protocol`, `capability` and `tasks` are the
floors of `scripts/smoke-local-model`. Python's standard library only.
"""
