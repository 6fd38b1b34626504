"""Models written as flags: ``--model TYPE --model_args A=B``, once per model."""

from __future__ import annotations

import argparse

from ..errors import UsageError
from ..live.fields import Values
from .parsing import Options

MODELS: Options = {
    "--model TYPE,": "model type of lm_eval; once per model",
    "--model_args A=B,C=D,": "its arguments; once per model",
}


def models_of(args: argparse.Namespace) -> list[Values]:
    """The entries of ``models:`` that the flags write.

    Raises
    ------
    UsageError
        A flag is given for some of the models only.
    """
    kinds, arguments = args.model or [], args.model_args or []
    names, prices = getattr(args, "name", None) or [], getattr(args, "price", None) or []
    if kinds and len(prices) == 1:
        prices *= len(kinds)
    for flag, values in (("model_args", arguments), ("name", names), ("price", prices)):
        if values and len(values) != len(kinds):
            raise UsageError(
                f"--{flag} is given {len(values)} times and --model {len(kinds)} times; "
                "give each once per model, in the same order"
            )
    parts = {"model": kinds, "model_args": arguments, "name": names, "price": prices}
    stated = {key: values for key, values in parts.items() if values}
    return [dict(zip(stated, values)) for values in zip(*stated.values())]
