"""YAML files by which the plain ``lm_eval`` command runs any task or group adaptively."""

from __future__ import annotations

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
        Of the adaptive tasks and groups that stand for what was asked for.
    files : dict of str to Path
        Each file by the task or group that it is a variant of.
    in_full : dict of str to str
        Tasks that cannot be run so, and why; a group runs them in full.
    """

    folder: Path
    names: list[str] = field(default_factory=list)
    files: dict[str, Path] = field(default_factory=dict)
    in_full: dict[str, str] = field(default_factory=dict)


def write_variants(folder: Path, names: Sequence[str], include_path: Any = None) -> Variants:
    """Write a file for each task and group of some names: ``<name>_adaptive.yaml``.

    Parameters
    ----------
    folder : Path
        Is made where it is missing; to be given to ``lm_eval`` as ``--include_path``.
    names : sequence of str
        Tasks, groups, tags, patterns or files.
    include_path
        As the harness takes it.

    Raises
    ------
    UsageError
        There is no such task, or none of them can be run adaptively.
    HarnessError
        A file cannot be written.
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
    """Write the variant of a name; return it in a list, or those of a tag's tasks."""
    one = internals.listed(manager, name)
    name = str(one.config.get(one.kind, name))
    if one.kind == "tag":
        return [n for member in one.members for n in _written(variants, manager, member)]
    if one.kind == "task":
        return [_task(variants, name, one)]
    members: list[Any] = []
    for member in one.members:
        inner = member if isinstance(member, dict) else {}
        child = inner.get("task", member) if not inner.get("group") else member
        try:
            written = _written(variants, manager, child) if isinstance(child, str) else None
        except KeyError:
            written = None
        if written is None:
            variants.in_full[f"{name}::{child}"] = "it is written out inside its group"
            members.append(member)
        else:
            members += [{**inner, "task": n} if inner else n for n in written]
    kept = {k: v for k, v in one.config.items() if k not in ("group", "task", "include", "tag")}
    content = {"group": name + SUFFIX, **kept, "task": members}
    _write(variants, name, yaml.safe_dump(content, sort_keys=False))
    return [name + SUFFIX]


def _task(variants: Variants, name: str, one: internals.Listed) -> str:
    kind = str(one.config.get("class", ""))
    if kind.endswith("AdaptiveTask"):
        return name
    reason = "its settings are code, which a variant cannot inherit" if kind else ""
    if one.config.get("output_type") == "loglikelihood_rolling":
        reason = "a perplexity weighs documents by their length and has no score per document"
    if reason or one.file is None:
        variants.in_full[name] = reason or "it has no file"
        return name
    folder, file = variants.folder, json.dumps(str(one.file.resolve()), ensure_ascii=False)
    text = _TASK.format(name=name, file=file, folder=folder, kind=_CLASS, suffix=SUFFIX)
    _write(variants, name, text)
    return name + SUFFIX


def _write(variants: Variants, name: str, text: str) -> None:
    file = variants.folder / f"{name.replace('/', '_')}{SUFFIX}.yaml"
    file.write_text(text, encoding="utf-8")
    variants.files[name] = file
