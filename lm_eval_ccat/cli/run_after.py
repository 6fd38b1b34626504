"""After an adaptive ``run``: count the items used, and put the model on the leaderboard."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    from ..live.known import KnownResults

#: Arguments of models that name them, as the harness has it.
_NAMING = ("peft", "delta", "pretrained", "model", "path", "engine")
#: Flags of this module, which the harness's command must not see.
FLAGS = ("leaderboard_out", "leaderboard_name")


def add_arguments(group: Any) -> None:
    """Add the flags of leaderboards to ``run``."""
    group.add_argument(
        "--leaderboard_out",
        metavar="<path>",
        help="Where to write the table: <path>.json, .md and .csv (default: "
        "leaderboard_<task> in --output_path, else in the working directory)",
    )
    group.add_argument(
        "--leaderboard_name", metavar="<name>", help="The model's name on the leaderboard"
    )


def mlflow_options(text: str | None) -> dict[str, str] | None:
    """What ``--mlflow_args`` says, None without it.

    Raises
    ------
    UsageError
        It is not of the form a=b,c=d, or MLflow is not installed; before a model is loaded.
    """
    if text is None:
        return None
    from ..integrations.trackers import package

    found = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"--mlflow_args {part!r} is not of the form key=value")
        found[key.strip()] = value.strip()
    package("mlflow")
    return found


def log_estimates(blocks: Mapping[str, Mapping[str, Any]], options: Mapping[str, str]) -> None:
    """Log the ``adaptive`` blocks of a run to MLflow; a failure is warned of."""
    from ..harness.assembly import in_words
    from ..live.tracking import track

    of_tasks = {name: block for name, block in blocks.items() if "estimate" in block}
    result = {
        "headline": "; ".join(in_words(block, name) for name, block in of_tasks.items()),
        "signature": "; ".join(block["signature"] for block in of_tasks.values()),
        "models": {
            name: {
                "estimate": block["estimate"],
                "standard_error": block["standard_error"],
                "n_items": block["items"],
                "cost": block["cost"]["usd"],
            }
            for name, block in of_tasks.items()
        },
        "adaptive": dict(blocks),
    }
    track(result, {"mlflow": options}, lambda text: print(f"warning: {text}", file=sys.stderr))


def model_name(args: argparse.Namespace, file: Mapping[str, Any]) -> str:
    """What the harness would call the model that is run (`file`: its ``--config``)."""
    from ..harness import internals

    given = getattr(args, "model_args", None) or file.get("model_args")
    arguments = internals.model_arguments(given)
    for key in _NAMING:
        if arguments.get(key):
            return str(arguments[key])
    text = ",".join(f"{k}={v}" for k, v in arguments.items())
    model = str(getattr(args, "model", None) or file.get("model") or "model")
    return f"{model}:{text}" if text else model


def update_leaderboards(
    known: KnownResults,
    blocks: Mapping[str, Mapping[str, Any]],
    out: str | None,
    output_path: str | None,
) -> None:
    """Write each task's and group's board with the model's row, and print the row and its place."""
    from ..report.board import Row
    from ..report.board_files import update_board

    boards = {
        task: (block, full_board(known.tables[task], known.scales[task], block, task))
        for task, block in blocks.items()
        if task in known.tables
    }
    of_tasks = dict(boards)
    for name, block in blocks.items():
        if "scores" in block and (found := group_board(name, block, of_tasks)) is not None:
            boards[name] = found
    for task, (block, full) in boards.items():
        row = Row(
            model=known.model or "model",
            score=block["estimate"],
            standard_error=block["standard_error"],
            items=block["items"],
            estimated=block["items"] < block["items_total"],
            signature=block.get("signature", ""),
        )
        base = _base(out, output_path, task, several=len(boards) > 1)
        board = update_board(base, full, [row])
        row = board.row(row.model)
        place = block.get("place") or {}
        print(f"\n{row.model}: {place.get('in_words', f'rank {row.rank} of {len(board.rows)}')}")
        near = board.rows[max(0, row.rank - 4) : row.rank + 3]
        for r in near:
            mark = ">" if r.model == row.model else " "
            score = f"≈ {r.score:.4g}" if r.estimated else f"  {r.score:.4g}"
            print(f"{mark} {r.rank:>4}  {score:<10}  {r.model}")
        print(f"leaderboard: {base}.html, {base}.md, {base}.csv, {base}.json")


def group_board(
    name: str, block: Mapping[str, Any], of_tasks: Mapping[str, tuple[Mapping[str, Any], Any]]
) -> tuple[dict[str, Any], Any] | None:
    """A group's figures and the board of models that have full results on all its tasks.

    None where it has no score of one metric, or a task of it has no leaderboard.
    """
    from ..report.board import Row

    if len(block["scores"]) != 1:
        return None
    [score] = block["scores"].values()
    weights = score["weights"]
    if not set(weights) <= set(of_tasks):
        return None
    rows = {task: {r.model: r for r in of_tasks[task][1].rows} for task in weights}
    first, *others = rows.values()
    found = [
        Row(
            model,
            sum(w * rows[t][model].score for t, w in weights.items()),
            sum((w * rows[t][model].standard_error) ** 2 for t, w in weights.items()) ** 0.5,
            sum(rows[t][model].items for t in weights),
            estimated=False,
        )
        for model in first
        if all(model in other for other in others)
    ]
    if not found:
        return None
    board = replace(of_tasks[next(iter(weights))][1], task=name, n_items=block["items_total"])
    figures = {**block, "estimate": score["estimate"], "standard_error": score["standard_error"]}
    return figures, replace(board, rows=()).with_rows(found)


def full_board(table: Any, scale: Any, block: Mapping[str, Any], task: str) -> Any:
    """The board of the full results alone."""
    import numpy as np

    from ..report.board import Board, Row

    # By way of [0, 1]: the table may be in other units, and what is estimated for an unbounded
    # metric is the capped mean.
    raw = scale.restore(table.model_scores())
    seen = np.isfinite(raw)
    rows = []
    whole, means = seen.all(axis=1), raw.mean(axis=1)
    for at, (model, scores, there) in enumerate(zip(table.models, raw, seen)):
        if whole[at]:
            rows.append(Row(model, float(means[at]), 0.0, table.n_items, estimated=False))
            continue
        n = int(there.sum())
        if not n:
            continue
        values = scores[there]
        missing = 1.0 - n / table.n_items
        error = float(np.sqrt(values.var(ddof=1) / n * missing)) if n > 1 and missing else 0.0
        rows.append(Row(model, float(values.mean()), error, n, estimated=False))
    board = Board(
        task=task,
        metric=block["key"].partition(",")[0],
        filter=block["filter"],
        scale=scale,
        n_items=table.n_items,
        confidence=block["confidence"],
    )
    return board.with_rows(rows)


def _base(out: str | None, output_path: str | None, task: str, several: bool) -> str:
    safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in task)
    if out is not None:
        stem = (
            str(Path(out).with_suffix("")) if Path(out).suffix in (".json", ".md", ".csv") else out
        )
        return f"{stem}_{safe}" if several else stem
    folder = Path(output_path or ".")
    if folder.suffix == ".json":  # the harness takes it for the name of the results file
        folder = folder.parent
    return str(folder / f"leaderboard_{safe}")
