"""Models written as flags: ``--model TYPE --model_args A=B``, once per model."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..errors import UsageError


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


def models_of(args: argparse.Namespace) -> list[dict[str, Any]]:
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
    arguments = given or [""] * len(kinds)
    named = names or _names(kinds, arguments)
    entries = [{"name": n, "model": k, "model_args": a} for n, k, a in zip(named, kinds, arguments)]
    return [{**e, "price": p} for e, p in zip(entries, prices)] if prices else entries


def _names(kinds: list[str], arguments: list[str]) -> list[str]:
    """The shortest arguments that tell the models apart."""
    short = []
    for kind, text in zip(kinds, arguments):
        parts = dict(part.partition("=")[::2] for part in text.split(","))
        name = next((parts[k] for k in ("pretrained", "model", "path") if parts.get(k)), "")
        short.append(Path(name).name or kind)
    if len(set(short)) == len(short):
        return short
    full = [f"{kind}:{text}" for kind, text in zip(kinds, arguments)]
    if len(set(full)) < len(full):
        raise UsageError("two models have the same --model and --model_args; give each a --name")
    return full
