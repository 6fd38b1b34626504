"""``lm-eval-ccat calibrate``: make an item bank from harness logs or a score table."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from .reading import add_reading_arguments, progress, read_scores

if TYPE_CHECKING:
    from ..bank import ItemBank
    from ..scores import ScoreTable

EPILOG = """\
example:
  lm-eval-ccat calibrate harness_logs/ --task my_task --metric bleu -o my_task.bank.json
  lm-eval-ccat calibrate scores.parquet --metric mqm --range 0,25 --lower_is_better -o mqm.bank.json
"""

_SHOWN_ITEMS = 10
# Beyond this the replay of the bank's own models takes longer than the calibration.
_REPLAY_CELLS = 1_500_000
_REPLAY_FOLDS = 10


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``calibrate`` to the command line."""
    parser = subparsers.add_parser(
        "calibrate",
        help="make an item bank from logs or a score table",
        description="Calibrate an item bank on the scores of several models, and say whether it "
        "can be trusted.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "scores",
        metavar="LOGS_OR_TABLE",
        help="a directory of harness outputs (run with --log_samples), or a .parquet or .csv table",
    )
    add_reading_arguments(parser)
    parser.add_argument(
        "--method",
        choices=("default", "paper"),
        default="default",
        help="response model (default: %(default)s)",
    )
    parser.add_argument("--exclude", default="", metavar="A,B", help="models to leave out")
    parser.add_argument(
        "--hash_names",
        action="store_true",
        help="write hashes in place of model names and paths into the bank",
    )
    parser.add_argument(
        "--no_replay",
        action="store_true",
        help="do not replay the bank's own models for the statement of trust",
    )
    parser.add_argument("--json", metavar="FILE", help="write the report as JSON, too")
    parser.add_argument("-o", "--output", required=True, metavar="BANK", help="file to write")
    parser.set_defaults(func=run)


def run(args: argparse.Namespace) -> int:
    """Calibrate, save, report."""
    from ..methods import calibrate
    from ..metrics import check_column

    table = read_scores(args.scores, args)
    if args.exclude:
        names = [name for name in args.exclude.split(",") if name]
        table.select(names)  # an unknown name is an error, not a silent nothing
        table = table.without(names)
    check_column(table.raw, metric=table.metric, task=table.task or "")
    bank = calibrate(table, method=args.method, hash_names=args.hash_names)
    bank.save(args.output)
    replayed = None if args.no_replay else replay(table, args.method)
    facts = report(table, bank, replayed)
    if args.json:
        _write(args.json, facts)
    for line in describe(facts, args.output):
        print(line)
    for warning in facts["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)
    return 0


def replay(table: ScoreTable, method: str) -> dict[str, Any] | None:
    """Hold the bank's own models out in turn and rank them by banks of the others.

    Returns
    -------
    dict or None
        A summary as ``simulate`` makes it; None where there are too few models, or where it would
        take longer than the calibration (the method "default" checks itself).
    """
    if method != "paper" or len(table.models) < 6 or table.raw.size > _REPLAY_CELLS:
        return None
    from ..simulation import simulate

    holdout = min(4, len(table.models) // 3)
    with progress("replaying", "folds") as show:
        found = simulate(table, [method], holdout=holdout, folds=_REPLAY_FOLDS, on_progress=show)
    return found.summary[method]


def report(
    table: ScoreTable, bank: ItemBank, replayed: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Collect what there is to say of a calibration, as JSON values on the metric's own scale."""
    import numpy as np

    means = np.nanmean(table.model_scores(unit=False), axis=1)
    order = np.argsort(-means if table.scale.higher_is_better else means, kind="stable")
    missing = int((~np.isfinite(table.raw)).sum())
    found = bank.provenance.get("report", {})
    return {
        "task": bank.task,
        "metric": bank.metric,
        "filter": bank.filter,
        "scale": bank.scale.describe(),
        "method": bank.method,
        "sha256": bank.sha256,
        "models": {table.models[i]: float(means[i]) for i in order},
        "configs": len(table.row_model),
        "items": bank.n_items,
        "items_kept": int(bank.kept.sum()),
        "removed": {str(doc_id): why for doc_id, why in found.get("removed", {}).items()},
        "missing_scores": missing,
        **_noise(bank),
        "constants": {
            name: value
            for name, value in bank.constants.items()
            if isinstance(value, (int, float)) and name not in ("k", "discrimination")
        },
        "parameters": _spread(bank),
        "settings": bank.settings,
        "self_check": bank.self_check,
        "replay": replayed,
        "warnings": list(bank.warnings),
        "trust": trust(bank, replayed),
    }


def _noise(bank: ItemBank) -> dict[str, float]:
    """Noise ``k`` and discrimination of a bank; of its median item where items differ in them."""
    import numpy as np

    if "k" in bank.constants:
        k = float(bank.constants["k"])
        return {"k": k, "discrimination": float(bank.constants.get("discrimination", k**-0.5))}
    noise, slope = bank.parameters["noise"], bank.parameters["slope"]
    return {
        "k": float(np.nanmedian(noise)),
        "discrimination": float(np.nanmedian(slope / np.sqrt(noise))),
    }


def _spread(bank: ItemBank) -> dict[str, dict[str, float]]:
    import numpy as np

    spread = {}
    for name, values in bank.parameters.items():
        finite = values[np.isfinite(values)]
        if values.ndim == 1 and finite.size:
            low, middle, high = np.quantile(finite, [0.05, 0.5, 0.95]).tolist()
            spread[name] = {"p05": low, "median": middle, "p95": high}
    return spread


def trust(bank: ItemBank, replayed: dict[str, Any] | None) -> str:
    """Say in plain words whether the bank can be trusted."""
    stated = bank.self_check.get("trust") or bank.provenance.get("report", {}).get("trust")
    if isinstance(stated, str):
        return stated
    doubts = len(bank.warnings)
    opening = (
        "nothing in the scores speaks against this bank"
        if not doubts
        else f"read the {doubts} warning{'s' if doubts > 1 else ''} before relying on this bank"
    )
    if replayed is None:
        return (
            f"{opening}; how well it ranks is not checked: `lm-eval-ccat simulate` on the same "
            "scores says"
        )
    parts = [f"mean tau {replayed['tau']:.2f} with {replayed['items_per_model']:.0f} items a model"]
    if replayed["confident_accuracy"] is not None:
        parts.append(
            f"{replayed['confident_accuracy']:.1%} of {replayed['confident_pairs']} decided pairs "
            "right"
        )
    wide = (replayed["z_rms"] or 0.0) > 1.5
    if replayed["coverage"] is not None:
        parts.append(f"{replayed['coverage']:.0%} of 95% intervals true")
    ending = (
        '; its intervals are too narrow to be relied on (the method "paper" knows nothing of '
        "misfit)"
        if wide
        else ""
    )
    return f"{opening}; its own models, held out, are ranked with {', '.join(parts)}{ending}"


def describe(facts: dict[str, Any], output: str) -> list[str]:
    """Return the printed report."""
    means = list(facts["models"].items())
    removed = list(facts["removed"].items())
    lines = [
        ("task", f"{facts['task'] or 'not stated'}, filter {facts['filter'] or 'not stated'}"),
        ("metric", f"{facts['metric']} ({facts['scale']})"),
        ("method", facts["method"]),
        (
            "models",
            f"{len(means)}"
            + (f" in {facts['configs']} configs" if facts["configs"] > len(means) else "")
            + f", from {means[0][0]} ({means[0][1]:.4g}) to {means[-1][0]} ({means[-1][1]:.4g})",
        ),
        (
            "items",
            f"{facts['items_kept']} kept of {facts['items']}"
            + (f"; {facts['missing_scores']} scores missing" if facts["missing_scores"] else ""),
        ),
    ]
    for doc_id, why in removed[:_SHOWN_ITEMS]:
        lines.append(("  removed", f"doc_id {doc_id}: {why}"))
    if len(removed) > _SHOWN_ITEMS:
        lines.append(("  removed", f"{len(removed) - _SHOWN_ITEMS} more, listed in the bank"))
    of_items = " (median item)" if "noise" in facts["parameters"] else ""
    lines += [(name, f"{facts[name]:.4g}{of_items}") for name in ("k", "discrimination")]
    for name, value in facts["constants"].items():
        lines.append((name, f"{value:.4g}"))
    for name, spread in facts["parameters"].items():
        lines.append(
            (
                name,
                f"median {spread['median']:.3g}, 90% of items in "
                f"[{spread['p05']:.3g}, {spread['p95']:.3g}]",
            )
        )
    if facts["settings"]:
        shown = ", ".join(
            f"{key}={json.dumps(value)}"
            for key, value in facts["settings"].items()
            if value is not None
        )
        lines.append(("settings", shown))
    for name, value in facts["self_check"].items():
        if isinstance(value, (int, float)):
            lines.append((f"check: {name}", f"{value:.4g}"))
    lines += [("trust", facts["trust"]), ("bank", f"{output} (sha256 {facts['sha256'][:12]})")]
    width = max(len(name) for name, _ in lines)
    return [f"{name:<{width}}  {text}" for name, text in lines]


def _write(path: str, facts: dict[str, Any]) -> None:
    try:
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(facts, stream, indent=1, default=str)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from error
