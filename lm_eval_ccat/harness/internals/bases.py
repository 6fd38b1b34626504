"""Classes of the harness to inherit from, which cannot be imported lazily.

Import this module only where such a subclass is defined: it loads the harness.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .names import resolve

if TYPE_CHECKING:
    from lm_eval.api.model import LM
    from lm_eval.api.task import ConfigurableTask
else:
    LM = resolve("lm_eval.api.model:LM")
    ConfigurableTask = resolve("lm_eval.api.task:ConfigurableTask|Task")

__all__ = ["LM", "ConfigurableTask", "stock_class"]


def stock_class(config: Mapping[str, Any]) -> Any:
    """Return the harness's class of a task without code.

    Before 0.5 that is one class for all tasks, from then on one per output type.
    """
    by_type = getattr(ConfigurableTask, "_registry", {})
    return by_type.get(config.get("output_type") or "generate_until", ConfigurableTask)
