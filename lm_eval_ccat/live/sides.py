"""The sides of a comparison: logs, score tables and what adaptive runs left, read alike."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..scores import ScoreTable
from ..scores.readers.reader import Outcome
from ..scores.readers.registry import reader_of
from ..simulation.audit import Claims, all_claims

Side = ScoreTable | Claims


def _is_claim(side: ScoreTable | str | Path) -> bool:
    """Whether a side is what an adaptive run left."""
    if isinstance(side, ScoreTable):
        return False
    path = Path(side)
    if path.is_dir():
        return (path / "result.json").is_file()
    if path.suffix != ".json" or not path.is_file():
        return False
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return isinstance(content, dict) and ("adaptive" in content or "pairwise" in content)


def shared_outcomes(
    a: Any, b: Any, metrics: Sequence[str], task: str | None, filter: str | None
) -> list[Outcome]:
    """Outcomes that both sides have, of those asked for.

    Raises
    ------
    UsageError
        There is none.
    """
    held = [_outcomes(side) or [Outcome(task, m, filter) for m in metrics] for side in (a, b)]
    wanted = [
        o
        for o in held[0]
        if (not metrics or o.metric in metrics)
        and (task is None or o.task in (None, task))
        and (filter is None or o.filter in (None, filter))
        and any(_same(o, other) for other in held[1])
    ]
    missing = [m for m in metrics if m not in {o.metric for o in wanted}]
    if missing or not wanted:
        both = sorted({f"{o.task or '-'}: {o.metric}" for side in held for o in side})
        what = f"metric {missing[0]!r}" if missing else "nothing"
        raise UsageError(f"the two sides have {what} in common; there are {', '.join(both)}")
    return wanted


def _same(one: Outcome, other: Outcome) -> bool:
    return one.metric == other.metric and all(
        x is None or y is None or x == y
        for x, y in ((one.task, other.task), (one.filter, other.filter))
    )


def _outcomes(side: Any) -> list[Outcome]:
    if isinstance(side, ScoreTable):
        return [Outcome(side.task, side.metric, side.filter)]
    if _is_claim(side):
        return [Outcome(c.task, c.metric or "score", c.filter) for c in all_claims(side)]
    path = Path(side)
    return reader_of(path).outcomes(path)


def side_of(side: Any, outcome: Outcome, how: Mapping[str, Any]) -> Side:
    """What a side says of an outcome: scores, or an adaptive run's estimates."""
    if isinstance(side, ScoreTable):
        return side
    if _is_claim(side):
        held = [(Outcome(c.task, c.metric or "score", c.filter), c) for c in all_claims(side)]
        return next(claims for own, claims in held if _same(own, outcome))
    return ScoreTable.read(side, outcome.metric, outcome.task, outcome.filter, **how)


def model_of(side: Side, name: str | None, which: str) -> str:
    """The model of a side that is meant.

    Raises
    ------
    UsageError
        There are several and none is named, or none of that name.
    """
    known = list(side.models)
    if name is None:
        if len(known) > 1:
            raise UsageError(
                f"the {which} side holds {len(known)} models ({', '.join(known[:8])}): say which "
                "with --models BASELINE,CANDIDATE"
            )
        return known[0]
    if name not in known:
        raise UsageError(f"the {which} side has no model {name!r}; it has {', '.join(known[:8])}")
    return name
