"""Adaptive variants of tasks: YAML files that make the plain `lm_eval` command adaptive."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ..errors import HarnessError, UsageError
from . import internals

SUFFIX = "_adaptive"
_CLASS = "lm_eval_ccat.AdaptiveTask"
_TASK = """\
# {name} on few documents: lm_eval --include_path {folder} --tasks {name}{suffix} ...
# with a bank, say: --metadata '{{"adaptive": {{"bank": "{name}.bank.json", "stop": "se 0.01"}}}}'
task: {name}{suffix}
include: {file}
class: !function {kind}
tag: []
"""


@dataclass
class Variants:
    """The files that were written.

    Attributes
    ----------
    folder : Path
    names : list of str
        Names of the adaptive tasks and groups that replace those asked for.
    files : dict of str to Path
        The file of each task or group that has a variant.
    in_full : dict of str to str
        Tasks that cannot be run adaptively, and why; a group runs them in full.
    """

    folder: Path
    names: list[str] = field(default_factory=list)
    files: dict[str, Path] = field(default_factory=dict)
    in_full: dict[str, str] = field(default_factory=dict)


def write_variants(folder: Path, names: Sequence[str], include_path: Any = None) -> Variants:
    """Write ``<name>_adaptive.yaml`` for each of the tasks and groups named.

    Parameters
    ----------
    folder : Path
        Created if necessary; pass it to ``lm_eval`` as ``--include_path``.
    names : sequence of str
        Tasks, groups, tags, patterns or files.
    include_path
        As in the harness.

    Raises
    ------
    UsageError
        If there is no such task, or none of them can be run adaptively.
    HarnessError
        If a file cannot be written.
    """
    manager = internals.task_manager(names, include_path)
    variants = Variants(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in internals.expand_names(manager, names):
            variants.names += _written(variants, manager, name)
    except OSError as error:
        raise HarnessError(f"cannot write to {folder}: {error.strerror}") from error
    except KeyError as error:
        raise UsageError(f"no task, group, tag or file {error}") from None
    if not variants.files:
        raise UsageError("; ".join(f"{n}: {why}" for n, why in variants.in_full.items()))
    return variants


def _written(variants: Variants, manager: Any, name: str) -> list[str]:
    """Write the variant of a name, or those of a tag's tasks; return the variants' names."""
    one = internals.listed(manager, name)
    name = str(one.config.get(one.kind, name))
    if one.kind == "tag":
        return [n for member in one.members for n in _written(variants, manager, member)]
    if one.kind == "group":
        kept = {k: v for k, v in one.config.items() if k not in ("group", "task", "include", "tag")}
        members = [n for member in one.members for n in _member(variants, manager, name, member)]
        content = {"group": name + SUFFIX, **kept, "task": members}
        text = yaml.safe_dump(content, sort_keys=False)
    else:
        kind = str(one.config.get("class", ""))
        if kind.endswith("AdaptiveTask"):
            return [name]
        reason = "its settings are code, which a variant cannot inherit" if kind else ""
        if one.config.get("output_type") == "loglikelihood_rolling":
            reason = "a perplexity weighs documents by their length and has no score per document"
        if reason or one.file is None:
            variants.in_full[name] = reason or "it has no file"
            return [name]
        folder, file = variants.folder, json.dumps(str(one.file.resolve()), ensure_ascii=False)
        text = _TASK.format(name=name, file=file, folder=folder, kind=_CLASS, suffix=SUFFIX)
    variants.files[name] = variants.folder / f"{name.replace('/', '_')}{SUFFIX}.yaml"
    variants.files[name].write_text(text, encoding="utf-8")
    return [name + SUFFIX]


def _member(variants: Variants, manager: Any, group: str, member: Any) -> list[Any]:
    """Return the entries of a group's variant that replace one of its members."""
    inner = member if isinstance(member, dict) else {}
    child = inner.get("task", member) if not inner.get("group") else member
    if isinstance(child, str):
        with contextlib.suppress(KeyError):
            written = _written(variants, manager, child)
            return [{**inner, "task": n} if inner else n for n in written]
    variants.in_full[f"{group}::{child}"] = "it is defined inside its group and has no file"
    return [member]
