"""What every journal must do; run it on your own with one call in a test."""

from __future__ import annotations

from collections.abc import Callable

from lm_eval_ccat.errors import RunError
from lm_eval_ccat.runs.journal import Journal, Record

HEADER: Record = {"op": "header", "format": "lm-eval-ccat/journal", "version": 2}
TELL: Record = {
    "op": "tell",
    "model": "m/ä\u202e\x00\ud800",
    "item": ("task", 3),
    "score": {"bleu": 0.1, "chrf": 1.0},
    "cost": 1e-300,
    "responses": [['", "sum": "00000000"}']],
}
ASK: Record = {"op": "ask", "pairs": [("m", ("", 1)), ("m", ("t", "x"))], "draws": [None, 0.125]}


def check_journal(open_journal: Callable[[], Journal]) -> None:
    """Assert that a journal keeps what the rest of the package relies on.

    Parameters
    ----------
    open_journal : callable
        Opens the same journal, empty at first, as another object each time.

    Raises
    ------
    AssertionError
        Saying what does not hold.

    Examples
    --------
    >>> from lm_eval_ccat.runs.journal import Journal
    >>> lines = []
    >>> check_journal(lambda: Journal(lines))
    """
    first, second = open_journal(), open_journal()
    assert first.read_new() == [] and first.count == 0, "an empty journal holds no records"
    first.append([HEADER])
    first.append([TELL, ASK])
    first.make_durable()
    assert first.read_new() == [], "an object does not read what it appended itself"
    assert first.count == 3, "count is the number of records read or written"
    assert second.read_new() == [HEADER, TELL, ASK], "another object reads all, items as tuples"
    assert second.read_new() == [], "and reads nothing twice"
    second.append([TELL])
    assert first.read_new() == [TELL], "objects take turns"
    for wrong in (float("nan"), object()):
        try:
            first.append([HEADER, {"op": "tell", "score": wrong}])
        except (ValueError, TypeError):
            pass
        else:
            raise AssertionError(f"{wrong!r} cannot be read back and must be refused")
        assert first.count == 4, "of a batch that is refused nothing counts"
    assert open_journal().read_new() == [HEADER, TELL, ASK, TELL], "nor is it read"
    first.append([])
    assert first.count == 4, "an empty batch changes nothing"
    first.close()
    try:
        first.append([TELL])
    except RunError:
        return
    raise AssertionError("a closed journal takes nothing more")
