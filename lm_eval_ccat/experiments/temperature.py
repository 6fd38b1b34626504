"""The scores of every model at one temperature, out of a table of several."""

from __future__ import annotations

import re
from dataclasses import replace

from ..errors import ScoreTableError
from ..scores import ScoreTable

_STATED = re.compile(r"(?:^|[^a-z])(?:t|temp|temperature)[\"'\s]*[=:_]?\s*(\d+(?:\.\d+)?)", re.I)


def temperature_of(config: str) -> float | None:
    """The temperature that the name of a config states, or None.

    Examples
    --------
    >>> [temperature_of(c) for c in ("temperature=0.7", "t=0", "temp_1.0", "0.4", "greedy")]
    [0.7, 0.0, 1.0, 0.4, None]
    """
    found = _STATED.search(config) or re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*", config)
    return None if found is None else float(found[1])


def at_temperature(table: ScoreTable, temperature: float) -> ScoreTable:
    """The table with one config of each model: the only one it has, else that at `temperature`.

    Raises
    ------
    ScoreTableError
        A model has several configs and not exactly one of them at that temperature.
    """
    rows: list[int] = []
    for model, own in table.rows_of.items():
        there = [int(r) for r in own if temperature_of(table.row_config[r]) == temperature]
        if len(own) > 1 and len(there) != 1:
            configs = ", ".join(repr(table.row_config[r]) for r in own)
            raise ScoreTableError(
                f"model {model!r} has {len(there)} configs at temperature {temperature:g} "
                f"({configs}); name another --temperature, or 'all' for the mean of the configs"
            )
        rows += [int(own[0])] if len(own) == 1 else there
    return replace(
        table,
        raw=table.raw[rows],
        row_model=tuple(table.row_model[r] for r in rows),
        row_config=tuple(table.row_config[r] for r in rows),
    )
