"""Keeps the figures of first use, and writes them into the page of what was measured of `sample`.

    python benchmarks/sample.py --sections first --seeds 2 --out found.json
    python docs/.hooks/first_use.py found.json "THE COMMAND AS RUN"

keeps the sections that were run in docs/evidence/measured/sample.json, with the hash of the
sources; what was not run stays as it was.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MEASURED = ROOT / "docs" / "evidence" / "measured" / "sample.json"
PAGE = ROOT / "docs" / "evidence" / "sample.md"
_PLACE = re.compile(r"<!-- sample: (\w+) -->\n.*?<!-- end of sample -->", re.S)
_NAMES = {
    "sample": "`sample`",
    "sample, familywise": "`sample`, familywise",
    "sample, d = 0.02": "`sample`, `min_difference` 0.02",
    "paired": "100 common items, paired t-test",
}


def filled(page: str) -> str:
    """The page with its tables as the figures have them."""
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    make = {"first": _first, "bank": _bank}
    return _PLACE.sub(
        lambda m: f"<!-- sample: {m[1]} -->\n{make[m[1]](measured)}\n<!-- end of sample -->", page
    )


def _first(measured: dict[str, Any]) -> str:
    lines = [
        "| models | method | items per model | of a full run | pairs decided | "
        "rankings with a wrong pair | tau |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for key in sorted((k for k in measured if k.startswith("first, ")), key=_number):
        for method, of in measured[key]["figures"].items():
            items, share, decided, wrong, tau = (
                of[k] for k in ("items", "share", "decided", "any_wrong", "tau")
            )
            lines.append(
                f"| {_number(key)} | {_NAMES[method]} | {items[0]:.0f} ± {items[1]:.0f} | "
                f"{share[0]:.0%} | {decided[0]:.0%} | {wrong[0]:.1%} ± {wrong[1]:.1%} | "
                f"{tau[0]:.3f} |"
            )
    return "\n".join([*lines, "", _made(measured, "first, ")])


def _bank(measured: dict[str, Any]) -> str:
    head = ["models that calibrate", "sets of scores"]
    head += [f"{what} at {n} items" for n in (20, 50) for what in ("tau", "decided", "RMSE")]
    rows = [head, ["---"] * len(head)]
    for name, of in measured["bank, random folds"]["figures"].items():
        row = [str(_number(name)), str(of["tables"])]
        for n in (20, 50):
            row.append(_both(of[f"tau_{n}"], "+.2f", ".2f"))
            row.append(_both(of[f"decided_{n}"], "+.0%", ".0%"))
            row.append(_both(of[f"rmse_{n}"], ".2f", ".2f"))
        rows.append(row)
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return f"{table}\n\n{_made(measured, 'bank, ')}"


def _both(figure: list[float], form: str, of_error: str) -> str:
    return f"{figure[0]:{form}} ± {figure[1]:{of_error}}"


def _number(key: str) -> int:
    return int(re.findall(r"\d+", key)[0])


def _made(measured: dict[str, Any], part: str) -> str:
    made = {
        f"`{one['command']}` with sources of hash {one['sources']}"
        for key, one in measured.items()
        if key.startswith(part)
    }
    return f"Made by {', '.join(sorted(made))}; ± is the standard error over sets of scores."


def keep(path: Path, command: str) -> None:
    """Keep the figures of a run of the benchmark, and write the page."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from sources import sources

    made = sources("benchmarks/sample.py")
    found = json.loads(path.read_text(encoding="utf-8"))
    measured = json.loads(MEASURED.read_text(encoding="utf-8")) if MEASURED.exists() else {}
    for key, figures in found.items():
        measured[key] = {"command": command, "sources": made, "figures": figures}
    MEASURED.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    keep(Path(sys.argv[1]), sys.argv[2])
