"""``rank --init``: a commented configuration from flags, or from a few questions."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..files import replace_text
from ..live.spec import Spec
from ..live.surfaces import starter


def write_starter(file: Path, options: Mapping[str, Any]) -> None:
    """Write a configuration that `rank` runs as it is.

    Raises
    ------
    UsageError
        The file exists, an option is invalid, or what is missing cannot be asked for.
    """
    if file.exists():
        raise UsageError(f"{file} exists; choose another name: --init FILE")
    values = dict(options)
    if not (values.get("tasks") and values.get("models")):
        if not sys.stdin.isatty():
            raise UsageError(
                "--init needs --task and the models (--model TYPE --model_args A=B, once each), "
                "or a terminal to ask for them"
            )
        _ask(values)
    replace_text(file, starter(Spec.read(values).require_ranking()))
    print(f"Wrote {file}. See what it will take: lm-eval-ccat rank {file} --dry_run")


def _ask(values: dict[str, Any]) -> None:
    while not values.get("tasks"):
        values["tasks"] = _answer("Task (a name of lm_eval's, or a YAML file)")
    models = values["models"] = list(values.get("models") or [])
    while kind := _answer(
        f"Model {len(models) + 1}, its type (hf, vllm, local-completions, ...)"
        + ("; Enter ends the list" if len(models) > 1 else "")
    ):
        models.append({"model": kind, "model_args": _answer("  its arguments (pretrained=PATH)")})
    if not {"budget", "max_items"} & values.keys() and (
        most := _answer("Maximum number of answers in all (Enter: no maximum)")
    ):
        values["budget"] = {"items": int(most) if most.isdigit() else most}


def _answer(question: str) -> str:
    print(f"{question}: ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise UsageError("--init: the input ended before the last question")
    return line.strip()
