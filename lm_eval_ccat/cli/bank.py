"""``lm-eval-ccat bank show``: what an item bank holds and whether to trust it."""

from __future__ import annotations

import argparse
import json

EPILOG = """\
example:
  lm-eval-ccat bank show my_task.bank.json
  lm-eval-ccat bank show my_task.bank.json --json
"""


def add_parser(subparsers: argparse._SubParsersAction) -> None:
    """Add ``bank`` to the command line."""
    parser = subparsers.add_parser(
        "bank",
        help="look into an item bank",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser(
        "show",
        help="print what a bank was calibrated on, its parameters and its self-check",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    show.add_argument("bank", metavar="BANK", help="a bank file made by `calibrate`")
    show.add_argument("--json", action="store_true", help="print JSON instead of text")
    show.set_defaults(func=run)


def summary(path: str) -> dict:
    """What ``bank show`` prints, as JSON values."""
    import numpy as np

    from ..bank import ItemBank

    bank = ItemBank.load(path)
    spread = {}
    for name, values in bank.parameters.items():
        array = np.asarray(values, dtype=float)
        finite = array[np.isfinite(array)]
        if finite.size:
            low, middle, high = np.quantile(finite, [0.0, 0.5, 1.0])
            spread[name] = {"min": float(low), "median": float(middle), "max": float(high)}
    return {
        "file": path,
        "sha256": bank.sha256,
        "method": bank.method,
        "task": bank.task,
        "metric": bank.metric,
        "filter": bank.filter,
        "scale": bank.scale.describe(),
        "items": len(bank.doc_ids),
        "items_kept": int(np.count_nonzero(bank.kept)),
        "calibration_models": list(bank.models),
        "settings": dict(bank.settings),
        "constants": dict(bank.constants),
        "parameters": spread,
        "provenance": bank.provenance,
        "self_check": bank.self_check,
        "warnings": list(bank.warnings),
    }


def run(args: argparse.Namespace) -> int:
    """Print one bank."""
    facts = summary(args.bank)
    if args.json:
        print(json.dumps(facts, indent=2, default=str))
        return 0
    models = facts["calibration_models"]
    print(f"{facts['file']}  (sha256 {facts['sha256'][:12]})")
    print(f"  task         {facts['task'] or 'not stated'}")
    print(f"  metric       {facts['metric']}, filter {facts['filter'] or 'none'}")
    print(f"  scale        {facts['scale']}")
    print(f"  method       {facts['method']}")
    print(f"  items        {facts['items_kept']} kept of {facts['items']}")
    print(f"  models       {len(models)}: {', '.join(map(str, models))}")
    for name, value in facts["constants"].items():
        print(f"  {name:<12} {_short(value)}")
    for name, value in facts["parameters"].items():
        print(
            f"  {name:<12} {value['min']:.4g} to {value['max']:.4g} over the items, "
            f"median {value['median']:.4g}"
        )
    for title, block in (("settings", facts["settings"]), ("self-check", facts["self_check"])):
        if block:
            print(f"  {title}")
            for name, value in block.items():
                print(f"    {name}: {_short(value)}")
    for warning in facts["warnings"]:
        print(f"  warning: {warning}")
    return 0


def _short(value: object, width: int = 100) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else json.dumps(value, default=str)
    return text if len(text) <= width else text[: width - 3] + "..."
