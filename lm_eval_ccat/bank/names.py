"""Names of models: their families, and how a public bank hides who it was calibrated on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

_PREFIX = "model-"


def hashed_name(name: str) -> str:
    """A name that tells only whether two models are the same.

    Anyone who guesses a name can test the guess: this hides names from readers, not from a
    determined search over known ones.

    Examples
    --------
    >>> hashed_name("gpt-2")
    'model-cd0726b37a09'
    """
    return _PREFIX + hashlib.sha256(name.encode()).hexdigest()[:12]


def hide_names(value: Any, names: Sequence[str]) -> Any:
    """Replace model names wherever they stand in JSON values.

    Parameters
    ----------
    value : JSON value
        Keys and texts in it may be a name, or contain one as a word.
    names : sequence of str

    Examples
    --------
    >>> hide_names({"abilities": {"a/b": 0.5}}, ["a/b"])
    {'abilities': {'model-c14cddc033f6': 0.5}}
    """
    hidden = {n: hashed_name(n) for n in sorted(names, key=len, reverse=True)}
    return _replace(value, hidden)


def _replace(value: Any, hidden: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {_replace(k, hidden): _replace(v, hidden) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_replace(v, hidden) for v in value)
    if not isinstance(value, str):
        return value
    if value in hidden:
        return hidden[value]
    for name, mask in hidden.items():
        # A very short name ("a") stands in half of all sentences; as a word of its own only.
        if len(name) > 3:
            value = value.replace(name, mask)
    return value


def family_of(model: str) -> str:
    """Family of a model by its name: what stands before the first separator or digit.

    Examples
    --------
    >>> family_of("Qwen2.5-72B-instruct"), family_of("org/llama-3")
    ('qwen', 'llama')
    """
    name = model.rsplit("/", 1)[-1].lower()
    return re.split(r"[-_ .:0-9]", name)[0] or name
