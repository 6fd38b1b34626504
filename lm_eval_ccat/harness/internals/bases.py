"""Classes of the harness to inherit from; a base class cannot come lazily.

Import this module only where such a class is made: it loads the harness.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .names import resolve

if TYPE_CHECKING:
    from lm_eval.api.model import LM
    from lm_eval.api.task import ConfigurableTask
else:
    LM = resolve("lm_eval.api.model:LM")
    ConfigurableTask = resolve("lm_eval.api.task:ConfigurableTask|Task")

__all__ = ["LM", "ConfigurableTask"]
