"""Families of models, by their names: checkpoints and sizes of one model are not independent."""

from __future__ import annotations

import re


def family_of(model: str) -> str:
    """Family of a model by its name: what stands before the first separator or digit.

    Examples
    --------
    >>> family_of("Qwen2.5-72B-instruct"), family_of("org/llama-3")
    ('qwen', 'llama')
    """
    name = model.rsplit("/", 1)[-1].lower()
    return re.split(r"[-_ .:0-9]", name)[0] or name
