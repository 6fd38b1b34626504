"""A journal's records as calls on a Ranker."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..errors import RunError
from .identity import NO_LIMIT
from .lines import Record

if TYPE_CHECKING:
    from ..ranker import Ranker


def apply(ranker: Ranker, record: Record, where: str = "the journal") -> None:
    """Make the call that a record describes; records that the Ranker never sees are passed over.

    Parameters
    ----------
    ranker : Ranker
    record : dict
        As :meth:`~lm_eval_ccat.runs.journal.Journal.read_new` gives it.
    where : str, optional
        Name of the journal, for errors.

    Raises
    ------
    RunError
        A record of a kind that this version does not know.
    """
    op = record.get("op")
    if op == "ask":
        for n, (model, item) in enumerate(record["pairs"]):
            if record["draws"] is None:  # format 1: the audit's draws follow from its seed
                probability = ranker.audit_draw(model, item)
            else:
                probability = record["draws"][n]
            ranker.impose([(model, item, probability)])
    elif op == "tell":
        ranker.tell(record["model"], record["item"], record["score"], cost=record["cost"])
    elif op == "fail":
        ranker.fail(record["model"], record["item"], record["reason"], cost=record.get("cost"))
    elif op == "release":
        ranker.release(record["model"], record["item"])
    elif op == "drop":
        ranker.drop(record["model"], record["reason"])
    elif op == "restore":
        ranker.restore(record["model"])
    elif op == "stop":
        ranker.stop(record["reason"])
    elif op == "change":
        wanted = dict(record["ranker"])
        if wanted.get("budget") == NO_LIMIT:
            wanted["budget"] = math.inf
        if wanted.get("max_items") == NO_LIMIT:
            del wanted["max_items"]  # the rule that stands beside it has none
        ranker.change(**wanted)
    elif op not in ("header", "session", "note"):
        raise RunError(
            f"{where} holds a record {op!r} that this version does not know; update lm-eval-ccat"
        )
