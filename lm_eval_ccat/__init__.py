"""Adaptive testing for the lm-evaluation-harness.

The package is built on seven types. A `Spec` (`live.spec`) holds the options, an `Outcome`
(`bank.outcome`) names what is measured, and a `Model` (`live.models`) answers. A `Run` (`live.run`)
asks the models, a `Belief` (`methods.belief`) sums up their answers, `Verdicts`
(`ranker.verdicts`) decide by it, and a `Result` (`live.result`) reports the decisions.

The names below are loaded on first use, so that ``import lm_eval_ccat`` costs nothing and
commands that run no model never import torch, datasets or the harness.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bank import ItemBank
    from .errors import (
        BankError,
        BankMismatchError,
        CcatError,
        HarnessError,
        MetricError,
        RunError,
        ScaleError,
        ScoreTableError,
        UsageError,
    )
    from .live.adaptive import AdaptiveTask, adaptive_evaluate, simple_evaluate
    from .live.compare import compare
    from .live.comparison import Comparison
    from .live.ranking_run import rank
    from .live.result import Result
    from .methods import calibrate
    from .ranker import Ranker, Ranking
    from .scores import ScoreTable
    from .simulation import Simulation, simulate

__version__ = "0.1.0"

__all__ = [
    "AdaptiveTask",
    "BankError",
    "BankMismatchError",
    "CcatError",
    "Comparison",
    "HarnessError",
    "ItemBank",
    "MetricError",
    "Ranker",
    "Ranking",
    "Result",
    "RunError",
    "ScaleError",
    "ScoreTable",
    "ScoreTableError",
    "Simulation",
    "UsageError",
    "adaptive_evaluate",
    "calibrate",
    "compare",
    "rank",
    "simple_evaluate",
    "simulate",
]
#: Modules of the names above; any name not listed is an error of the module `errors`.
_HOME = {
    "AdaptiveTask": "live.adaptive",
    "Comparison": "live.comparison",
    "Result": "live.result",
    "adaptive_evaluate": "live.adaptive",
    "compare": "live.compare",
    "rank": "live.ranking_run",
    "simple_evaluate": "live.adaptive",
    "ScoreTable": "scores",
    "ItemBank": "bank",
    "calibrate": "methods",
    "Ranker": "ranker",
    "Ranking": "ranker",
    "Simulation": "simulation",
    "simulate": "simulation",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOME.get(name, 'errors')}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
