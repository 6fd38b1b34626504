"""The demonstration: real documents and real systems that need no network and no weights."""

from __future__ import annotations

#: The model type under which the harness finds the demo's systems (``--model ccat-demo``).
MODEL_TYPE = "ccat-demo"
#: Documents of the demo. Below the least its calibration has too few to tell its systems apart.
DOCUMENTS, LEAST, MOST = 800, 100, 5000

__all__ = ["MODEL_TYPE", "register_models"]


def register_models() -> None:
    """Register ``--model ccat-demo`` with the harness; the class is imported on use."""
    from ..harness import internals

    internals.register_model_type(MODEL_TYPE, "lm_eval_ccat.demo.systems:DemoSystem")
