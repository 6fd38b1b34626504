"""What servers said of their answers, where it casts doubt on a comparison.

Scores alone do not show that a server swapped the model, cut half of the answers short or withheld
them. Each is told on every surface of a result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..runs.tally import CUT, Tally

#: Share of empty answers from which they are warned of.
MANY_EMPTY = 0.1


def doubts(tally: Tally, calibrated: object = None) -> list[str]:
    """Return warnings of answers that may not be comparable, one sentence each.

    Parameters
    ----------
    tally : Tally
    calibrated : mapping, optional
        Settings of generation that the bank was calibrated on, as the harness names them.
    """
    return [
        *(
            f"{len(reasons)} of {tally.answered[name]} answers of {name} lack the score of one "
            f"metric; last: {reasons[-1]}"
            for name, reasons in tally.unscored.items()
        ),
        *(text for name, sent in tally.sent.items() for text in _unlike(name, sent, calibrated)),
        *(
            f"the server of {name} changed during the run ("
            + ", then ".join(_named(*identity) for identity in tally.served[name])
            + f"); no pair with {name} is decided unless you accept that (accept_change)"
            for name in sorted(tally.changed)
        ),
        *(text for reason, words in CUT.items() for text in _cut_unlike(tally, reason, words)),
        *(
            f"the server of {name} reports impossible token counts ({stated}); they are estimated "
            "from the texts"
            for name, stated in tally.refused_usage.items()
        ),
    ]


def empty_answers(tally: Tally, limit: float | None) -> tuple[list[str], bool]:
    """Return warnings of many empty answers, and whether a share exceeds the limit.

    Parameters
    ----------
    tally : Tally
    limit : float or None
        Largest share of empty answers that is put up with.
    """
    sentences, over = [], False
    for name, empty in tally.empty_outputs.items():
        n = tally.answered.get(name, 0)
        share = empty / n if n else 0.0
        above = limit is not None and share > limit
        if above or share >= MANY_EMPTY:
            sentences.append(
                f"{empty} of {n} answers of {name} are empty ({share:.0%}) and were scored as "
                "such: look at its stop sequences, token limit and chat template"
            )
        over = over or above
    return sentences, over


def _unlike(name: str, sent: Mapping[str, Any], calibrated: object) -> list[str]:
    """Where the requests to a model, as they were sent, differ from those of the calibration."""
    if not calibrated or not isinstance(calibrated, Mapping):
        return []
    limits = ("max_gen_toks", "max_tokens", "max_completion_tokens", "max_new_tokens")
    names = {"temperature": ("temperature",), "token limit": limits}
    differences = []
    for what, keys in names.items():
        was = next((calibrated[key] for key in keys if key in calibrated), None)
        now = next((sent[key] for key in keys if key in sent), None)
        if what == "temperature":  # the harness sends 0 where a task says nothing
            was, now = was or 0, now or 0
        if None not in (was, now) and was != now:
            differences.append(f"with {what} {now} in place of {was}")
    if calibrated.get("until") and not sent.get("stop"):
        differences.append("without its stop sequences")
    if not differences:
        return []
    return [
        f"the bank was calibrated on other requests: {name} was asked {' and '.join(differences)}"
    ]


def _named(model: str, fingerprint: str) -> str:
    return " ".join(filter(None, (model, fingerprint and f"({fingerprint})"))) or "no name"


def _cut_unlike(tally: Tally, reason: str, words: str) -> list[str]:
    """Where answers were cut off, or withheld, at different rates."""
    if not (pairs := tally.unlike(reason)):
        return []
    shares = ", ".join(
        f"{ends.get(reason, 0) / tally.answered[name]:.0%} of those of {name}"
        for name, ends in tally.finished.items()
        if any(name in pair for pair in pairs)
    )
    return [
        f"answers were {words} at different rates: {shares}; no pair of different rates is "
        "decided unless you accept that (accept_change)"
    ]
