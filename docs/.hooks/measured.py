"""Keeps measured figures, and writes them into the page of limits.

    python benchmarks/ranking_quality.py --sections quality --out quality.json
    python docs/.hooks/measured.py quality.json COMMIT

keeps new figures in docs/measured, with the commit at which they were made, and writes the tables.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

#: Figures of `benchmarks/ranking_quality.py`, with how they were made.
MEASURED = Path(__file__).resolve().parents[1] / "measured" / "quality.json"


#: The page, and where its tables stand in it.
PAGE = Path(__file__).resolve().parents[1] / "limits.md"
_PLACE = re.compile(r"<!-- quality: (\w+) -->\n.*?<!-- end -->", re.S)


def filled(page: str) -> str:
    """The page with its tables as the figures have them."""
    return _PLACE.sub(
        lambda m: f"<!-- quality: {m[1]} -->\n\n{quality(m[1])}\n\n<!-- end -->", page
    )


_HEAD = [
    "tau", "minus `paper`", "answers per model", "pairs decided", "decided right",
    "error / stated", "intervals that hold", "error (0 to 1)",
]  # fmt: skip


def quality(part: str) -> str:
    """A table of what `benchmarks/ranking_quality.py --out` wrote, or its worst figures."""
    measured = json.loads(MEASURED.read_text(encoding="utf-8"))
    tables = {name: of for name, of in measured["quality"].items() if name != "overall"}
    if part == "worst":
        return _worst(tables)
    if part == "default":
        rows = [[name, *_figures(of["default"])] for name, of in tables.items()]
        return _table(["scores", *_HEAD], rows)
    overall = measured["quality"]["overall"]
    rows = [[f"`{method}`", *_figures(of)] for method, of in overall.items()]
    rows.append(["`common`, more items", *_figures(measured["triple"]["overall"]["common"])])
    made = measured["made"]
    return (
        f"{_table(['method', *_HEAD], rows)}\n\n{made['runs']} rankings of four models on "
        f"{made['tables']} sets of scores; made by `{made['command']}` at commit {made['commit']}. "
        "Methods without a response model state no confidence and no error."
    )


def _worst(tables: dict[str, Any]) -> str:
    own = {name: of["default"] for name, of in tables.items()}
    below = [n for n, of in own.items() if of["minus_paper"] < 0]
    wrong = min(own, key=lambda n: own[n]["right"] or 1.0)
    narrow = max(own, key=lambda n: own[n]["z_rms"])
    few = min(own, key=lambda n: 1 - own[n]["tied"])
    behind = ", ".join(f"{n} ({own[n]['minus_paper']:+.3f})" for n in below) or "none"
    return (
        f"The worst of them: on {wrong} only {own[wrong]['right']:.0%} of the decided pairs were "
        f"right; on {narrow} the errors were {own[narrow]['z_rms']:.2f} times the stated ones; on "
        f"{few} only {1 - own[few]['tied']:.0%} of the pairs could be decided. Behind `paper`: "
        f"{behind}."
    )


def _table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(r) + " |" for r in [head, ["---"] * len(head), *rows])


def _figures(of: dict[str, Any]) -> list[str]:
    def number(key: str, form: str) -> str:
        return "–" if of.get(key) is None else form.format(of[key])

    difference = of.get("minus_paper_se")
    return [
        number("tau", "{:.3f}"),
        f"{of['minus_paper']:+.3f} ± {difference:.3f}" if difference else "–",
        number("items_per_model", "{:.0f}"),
        "–" if of.get("tied") is None else f"{1 - of['tied']:.0%}",
        number("right", "{:.1%}"),
        number("z_rms", "{:.2f}"),
        number("coverage", "{:.0%}"),
        number("rmse", "{:.3f}"),
    ]


def keep(path: Path, commit: str) -> None:
    """Keep the figures of a run of the benchmark for the page."""
    found = json.loads(path.read_text(encoding="utf-8"))
    tables = {part: found[part] for part in ("quality", "triple")}
    made = {
        "command": "python benchmarks/ranking_quality.py --sections quality --out quality.json",
        "commit": commit,
        "runs": tables["quality"]["overall"]["default"]["runs"],
        "tables": len(tables["quality"]) - 1,
    }
    kept = {"made": made, "left_out": found["left_out"], **_rounded(tables)}
    MEASURED.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    return round(value, 4) if isinstance(value, float) else value


if __name__ == "__main__":
    keep(Path(sys.argv[1]), sys.argv[2])
