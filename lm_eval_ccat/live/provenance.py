"""What servers said of their answers, where it casts doubt on a comparison.

Scores alone do not show that a server swapped the model, cut half of the answers short or withheld
them. Each is told on every surface of a result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..runs.tally import Tally

#: Ends of an answer that its model did not choose.
CUT = {"length": "cut at the token limit", "content_filter": "withheld by a content filter"}
#: Difference of their shares between two models from which it is told, and the fewest answers.
UNLIKE, FEWEST = 0.2, 8


def doubts(tally: Tally) -> list[str]:
    """What to say of answers that may not be comparable, one sentence each."""
    return [*_changed(tally), *_cut_unlike(tally), *_refused_usage(tally)]


def of_model(tally: Tally, name: str) -> dict[str, Any]:
    """What a model's block of the result says of it, as JSON values."""
    block: dict[str, Any] = {}
    if identities := tally.served.get(name):
        block["served"] = [
            {"model": model or None, "fingerprint": fingerprint or None, "answers": n}
            for (model, fingerprint), n in identities.items()
        ]
    if ends := tally.finished.get(name):
        block["finish"] = dict(sorted(ends.items()))
    return block


def _changed(tally: Tally) -> list[str]:
    return [
        f"the server of {name} changed during the run ("
        + ", then ".join(_named(*identity) for identity in tally.served[name])
        + f"); no pair with {name} is decided unless you accept that (--accept_change)"
        for name in sorted(tally.changed)
    ]


def _named(model: str, fingerprint: str) -> str:
    return " ".join(filter(None, (model, fingerprint and f"({fingerprint})"))) or "no name"


def _cut_unlike(tally: Tally) -> list[str]:
    said = []
    for reason, words in CUT.items():
        shares = {
            name: ends.get(reason, 0) / tally.answered[name]
            for name, ends in tally.finished.items()
            if tally.answered[name] >= FEWEST
        }
        if len(shares) > 1 and max(shares.values()) - min(shares.values()) >= UNLIKE:
            said.append(f"answers were {words} unlike often: {_percentages(shares)}")
    return said


def _percentages(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{share:.0%} of those of {name}" for name, share in shares.items())


def _refused_usage(tally: Tally) -> list[str]:
    return [
        f"the server of {name} states tokens that cannot be right ({stated}); they are estimated "
        "from the texts"
        for name, stated in tally.refused_usage.items()
    ]
