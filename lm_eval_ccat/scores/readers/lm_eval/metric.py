"""The metric of harness logs, named so that another process can find it too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ....errors import MetricError
from ....metrics import Metric, find_metric, known_scale
from ....metrics.declared import MEANS, read_declaration
from ....metrics.pairs import parts_of
from ....metrics.table import refusal

# What `read_declaration` looks at; a whole task configuration is long.
_DECLARING = ("metric_list", "metadata", "process_results", "output_type")


@dataclass(frozen=True)
class PlainNumber:
    """A metric of unknown scale: numbers, taken as they are; their values will tell the scale."""

    name: str

    def score(self, value: Any, *, task: str = "", prediction: str | None = None) -> float:
        """Return the number of one document.

        Raises
        ------
        MetricError
            When it is not one number.
        """
        if isinstance(value, (bool, int, float)):
            return float(value)
        raise MetricError(
            f"metric {self.name} of task {task} came as {type(value).__name__}, not as one number "
            "per document; give the task a process_results that returns one, or name another metric"
        )


@dataclass(frozen=True)
class MetricInLogs:
    """How to find a metric: :func:`lm_eval_ccat.metrics.find_metric`'s arguments, picklable.

    Attributes
    ----------
    name, task : str
    range : (float, float) or None
    lower_is_better : bool or None
    config : str
        JSON of what the task's configuration in a results file declares.
    """

    name: str
    task: str = ""
    range: tuple[float, float] | None = None
    lower_is_better: bool | None = None
    config: str = "{}"

    @classmethod
    def of(
        cls,
        name: str,
        task: str,
        range: tuple[float, float] | None,
        lower_is_better: bool | None,
        config: Mapping[str, Any] | None,
    ) -> MetricInLogs:
        """Keep of a task's configuration what declares metrics."""
        declaring = {key: value for key, value in (config or {}).items() if key in _DECLARING}
        return cls(name, task, range, lower_is_better, json.dumps(declaring, default=str))

    @property
    def source(self) -> str:
        """Key of the rows from which the metric is computed."""
        return parts_of(self.name)[0]

    def find(self) -> Metric | PlainNumber:
        """Return the metric; a stand-in where only its values can tell its scale.

        Raises
        ------
        MetricError
            When the metric cannot become one score per document.
        """
        return _find(self)


@lru_cache(maxsize=32)
def _find(wanted: MetricInLogs) -> Metric | PlainNumber:
    config = json.loads(wanted.config)
    declared = read_declaration(config, wanted.source)
    unknown = (
        wanted.range is None
        and declared.scale is None
        and known_scale(wanted.name, task=wanted.task) is None
        and refusal(wanted.name) is None
        and declared.aggregation in (None, *MEANS)
    )
    if unknown:
        return PlainNumber(wanted.name)
    return find_metric(
        wanted.name,
        range=wanted.range,
        lower_is_better=wanted.lower_is_better,
        task=wanted.task,
        config=config,
    )
