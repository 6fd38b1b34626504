"""The method "sample" as the rest of the package knows it."""

from __future__ import annotations

from ..method import Method
from .policy import SamplePolicy

METHOD = Method(
    name="sample",
    summary="random items, the same for all models; no bank needed",
    policy=SamplePolicy,
)
