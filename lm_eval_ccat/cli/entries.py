"""Models written as flags: ``--model TYPE --model_args A=B``, once per model."""

from __future__ import annotations

import argparse
from typing import Any

from ..errors import UsageError
from ..live.fields import Values


def add_models(parser: Any) -> None:
    """Add ``--model``, ``--model_args``, ``--name`` and ``--price``."""
    parser.add_argument(
        "--model", action="append", metavar="TYPE", help="model type of lm_eval; once per model"
    )
    parser.add_argument(
        "--model_args", action="append", metavar="A=B,C=D", help="its arguments; once per model"
    )
    parser.add_argument(
        "--name", action="append", metavar="NAME", help="its name in results; once per model"
    )
    parser.add_argument(
        "--price",
        action="append",
        nargs="+",
        metavar="PART=X",
        help="what it costs: input=0.4 output=1.6 ($ per million tokens), item=0.01, hour=2.5; "
        "once per model, or once for all",
    )


def models_of(args: argparse.Namespace) -> list[Values]:
    """The entries of ``models:`` that the flags write.

    Raises
    ------
    UsageError
        A flag is given for some of the models only.
    """
    kinds, given = args.model or [], args.model_args or []
    names, prices = args.name or [], args.price or []
    if kinds and len(prices) == 1:
        prices *= len(kinds)
    for flag, values in (("model_args", given), ("name", names), ("price", prices)):
        if values and len(values) != len(kinds):
            raise UsageError(
                f"--{flag} is given {len(values)} times and --model {len(kinds)} times; "
                "give each once per model, in the same order"
            )
    parts = {"model": kinds, "model_args": given, "name": names, "price": prices}
    stated = {key: values for key, values in parts.items() if values}
    return [dict(zip(stated, values)) for values in zip(*stated.values())]
