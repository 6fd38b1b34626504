"""Whether a run's scorer is that of a bank: judge, encoder, version of a metric.

==================================  =====================================================
refused                             warned of
==================================  =====================================================
judge models, rubric, repeats,      a judge's temperature, token limit, further settings
reducer, grades
BERTScore's encoder, layer,         a scorer that only one of the two records
rescaling
COMET's checkpoint                  another version of sacrebleu
sacrebleu's settings
==================================  =====================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..wording import short

#: What of a judge may differ between models that are compared all the same.
_SAMPLING = ("temperature", "max_tokens", "extra")


def compare_scorers(
    recorded: Mapping[str, Any] | None, run: Mapping[str, Any] | None, metric: str
) -> tuple[list[str], list[str]]:
    """Refusals and warnings for a scorer that is another than the bank's.

    Parameters
    ----------
    recorded, run : mapping of metric to mapping, or None
        The setting ``scorer`` of the bank and of the run; None where nothing is known of it.
    metric : str
        The bank's metric; other metrics' scorers do not matter.

    Examples
    --------
    >>> compare_scorers({"comet": {"checkpoint": "a"}}, {"comet": {"checkpoint": "b"}}, "comet")
    (["the scorer's checkpoint is 'b', the bank has 'a'"], [])
    """
    then, now = ((side or {}).get(metric) for side in (recorded, run))
    if then is None and now is None:
        return [], []
    if then is None or now is None:
        if set(then or now or {}) <= {"sacrebleu"}:  # older logs do not say, and it rarely changes
            return [], []
        known, other = ("run", "bank") if then is None else ("bank", "run")
        return [], [
            f"only the {known} records what scores {metric}, so it is not verified that the "
            f"{other} is scored alike"
        ]
    refusals: list[str] = []
    warnings: list[str] = []
    for key in dict.fromkeys([*then, *now]):
        a, b = then.get(key), now.get(key)
        if a == b:
            continue
        words = f"the scorer's {key} is {_show(b)}, the bank has {_show(a)}"
        soft = (key == "judges" and _models(a) == _models(b)) or (
            key == "sacrebleu" and _without_version(a) == _without_version(b)
        )
        (warnings if soft else refusals).append(words)
    return refusals, warnings


def _models(judges: Any) -> list[Any]:
    return [{k: v for k, v in judge.items() if k not in _SAMPLING} for judge in judges or ()]


def _without_version(signature: Any) -> list[str]:
    return [part for part in str(signature).split("|") if not part.startswith("version:")]


def _show(value: Any) -> str:
    return "none" if value is None else short(repr(value), 160)
