"""The demonstration: real documents and real systems that need no network and no weights."""

from __future__ import annotations

#: The model type under which the harness finds the demo's systems (``--model ccat-demo``).
MODEL_TYPE = "ccat-demo"

__all__ = ["MODEL_TYPE", "register_models"]


def register_models() -> None:
    """Make ``--model ccat-demo`` known to the harness; the class is imported when it is used."""
    import lm_eval.models  # noqa: F401  (registers the harness's own types, without loading them)
    from lm_eval.api.registry import model_registry

    if MODEL_TYPE not in model_registry:
        model_registry.register(MODEL_TYPE, target="lm_eval_ccat.demo.systems:DemoSystem")
