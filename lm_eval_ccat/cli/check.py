"""`check`: which metrics of a task can be used adaptively."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from pathlib import Path
from typing import Any

from ..grouping import grouped
from ..harness.opening import with_shipped_tasks
from ..harness.task_check import MetricCheck, TaskCheck, check_tasks, write_variants
from ..report.following import to_rank
from ..shown import first_of, plural
from .parsing import INCLUDE_PATH, JSON, Options, emit, names_of, prints_json

OPTIONS: Options = {
    "tasks=TASK...": "tasks, groups, tags or files; commas allowed",
    **INCLUDE_PATH,
    "--metric M": "look at this metric only",
    "--download": "fetch documents that are not on this machine",
    "--write_variants DIR": "write YAML files to DIR with which the plain lm_eval command runs "
    "the tasks adaptively",
    **JSON,
}


def check(args: argparse.Namespace) -> int:
    r"""Say which metrics of a task can be used adaptively: their scale, direction, and the key of
    the estimate. For the others, say why not and what to do.

    examples:
      lm-eval-ccat check truthfulqa_gen
      lm-eval-ccat check my_task --include_path my_tasks --metric my_score
      lm-eval-ccat check mmlu,wmt16-de-en --json
      lm-eval-ccat check hellaswag --write_variants mine
      lm_eval --model hf --model_args pretrained=gpt2 --include_path mine \
          --tasks hellaswag_adaptive

    No model is called, and nothing is fetched without --download: if a task's
    documents are not on this machine, only its YAML is checked.  Exit codes: 0 every
    task has a usable metric (the one named by --metric, if given), 3 some task has
    none, 2 no such task, 1 error.
    """
    if not args.download:
        # The hub's client reads these when the harness imports it.
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
    names = [name for text in args.tasks for name in names_of(text)]
    folders = with_shipped_tasks([args.include_path] if args.include_path else [])
    checks = check_tasks(names, include_path=folders, metric=args.metric)
    # A pipeline reads this as its exit code.
    usable = all(check.usable for check in checks)
    lines = [_in_words(checks)]
    if usable and not args.write_variants:
        flags = {"include_path": args.include_path, "metric": args.metric}
        lines.append("\n" + to_rank(names, **flags))
    emit(args.json, [check.to_dict() for check in checks], lines)
    # After the table, as it says why some tasks have no variant.
    if args.write_variants:
        variants = write_variants(Path(args.write_variants), names, folders)
        for task, reason in variants.in_full.items():
            print(f"{task} is run in full: {reason}", file=sys.stderr)
        print(
            f"\nWrote {plural(len(variants.files), 'file')} to {variants.folder}.\nNext: lm_eval "
            f"run --include_path {variants.folder} --tasks {','.join(variants.names)} ...",
            file=sys.stderr if prints_json(args.json) else sys.stdout,
        )
    return 0 if usable else 3


def _in_words(checks: list[TaskCheck]) -> str:
    """Describe tasks and their metrics; tasks that differ only in name are listed together."""
    # The 57 tasks of MMLU say the same; once is enough.
    groups = grouped((_without_names(check), check) for check in checks)
    return "\n\n".join("\n".join(_lines_of(members)) for members in groups.values())


def _without_names(check: TaskCheck) -> tuple[Any, ...]:
    """Return what is said of a task, but for its name."""
    metrics = (
        (metric.metric, metric.key, metric.words, metric.reason.replace(check.task, ""))
        for metric in check.metrics
    )
    return (check.reason.replace(check.task, ""), *metrics)


def _lines_of(members: list[TaskCheck]) -> list[str]:
    """Describe tasks that differ only in name."""
    first = members[0]
    lines = [_title(members)]
    if first.reason:
        lines += _wrapped(f"cannot be run adaptively: {first.reason}")
    else:
        lines += _table([metric for metric in first.metrics if metric.usable])
        refused = dict.fromkeys(metric.reason for metric in first.metrics if not metric.usable)
        for reason in refused:
            lines += _wrapped(f"refused: {reason}")
    for note in dict.fromkeys(note for check in members for note in check.notes):
        lines += _wrapped(f"note: {note}")
    return lines


def _table(metrics: list[MetricCheck]) -> list[str]:
    """Return the lines of a table of metrics; none without metrics."""
    if not metrics:
        return []
    rows = [("metric", "scale", "key of the estimate")]
    rows += [(metric.metric, metric.words, str(metric.key)) for metric in metrics]
    name_width = max(len(name) for name, _, _ in rows)
    scale_width = max(len(scale) for _, scale, _ in rows)
    return [
        f"  {name:<{name_width}}  {scale:<{scale_width}}  {key}".rstrip()
        for name, scale, key in rows
    ]


def _title(members: list[TaskCheck]) -> str:
    """Return the names of tasks that differ only in these, and how many documents they have."""
    known = [check.documents for check in members if check.documents is not None]
    count = f"{sum(known)} documents" if len(known) == len(members) else "documents not downloaded"
    if len(members) == 1:
        return f"{members[0].task} ({count})"
    names = first_of([check.task for check in members], 3)
    return f"{names} ({len(members)} tasks, {count})"


def _wrapped(text: str) -> list[str]:
    """Return a text as indented lines of at most 100 characters."""
    return textwrap.wrap(
        text, 100, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )
