"""One model of a ranking: loaded through the harness, opened and closed in turn."""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ..demo import register_models
from ..files import safe_name
from ..harness import TaskSession, internals
from ..harness.outcome import Outcome
from .entries import ModelSpec
from .money import Till
from .spec import Spec
from .tasks import PlaceholderLM, open_tasks
from .worker import Item, SessionWorker


class HarnessWorker(SessionWorker):
    """A model of the ranking that is loaded when it is needed.

    Parameters
    ----------
    entry : ModelSpec
    config : Spec
    measured : mapping of task to (mapping of name to Outcome)
    till : Till
    check : callable
        Called with each open session; raises where the bank does not fit.
    """

    def __init__(
        self,
        entry: ModelSpec,
        config: Spec,
        measured: Mapping[str, Mapping[str, Outcome]],
        till: Till,
        check: Callable[[TaskSession], None],
    ) -> None:
        super().__init__(entry.name, measured, {}, till)
        self.entry = entry
        self.memory = entry.memory
        if self.memory is None and internals.holds_weights(str(entry.model)):
            self.memory = math.inf  # not stated: nobody knows what fits beside it
        self.slots = entry.concurrency or 1
        self._config = config
        self._check = check

    def open(self) -> None:
        """Load the model and bind it to the tasks; the second time only load the model."""
        lm = self._make_lm()
        if "max_retries" not in self.entry.model_args:
            # Retries belong to one place, which journals them and knows when to give up.
            internals.own_retries(lm, 1)
        self._connect(lm, self.entry.concurrency)
        cache = self._config.harness.get("use_cache")
        if cache:
            lm = internals.with_cache(lm, f"{cache}_{safe_name(self.name)}.db")
        if self.sessions:
            for session in self.sessions.values():
                session.lm = lm
        else:
            sessions = self._open_sessions(lm)
            for session in sessions.values():
                self._check(session)
            self.sessions = sessions
        self.set_width(lm, self.entry.concurrency)

    def _open_sessions(self, lm: Any) -> dict[str, TaskSession]:
        return open_tasks(self._config, lm, count_tokens=self.entry.price.by_tokens)[0]

    def _make_lm(self) -> Any:
        register_models()
        harness = self._config.harness
        additional = {
            "batch_size": self.entry.batch_size or harness.get("batch_size"),
            "max_batch_size": harness.get("max_batch_size"),
            "device": self.entry.device or harness.get("device"),
        }
        return internals.make_lm(str(self.entry.model), self.entry.model_args, additional)

    def close(self) -> None:
        """Drop the model's weights; the task's requests stay."""
        weights = not self.remote
        super().close()
        for session in self.sessions.values():
            session.lm = None
        if not weights:
            return
        gc.collect()
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            torch.cuda.empty_cache()

    def restore(self, answers: Mapping[Item, Mapping[str, Any]]) -> None:
        """Score recorded answers again; the model need not be loaded for that."""
        if not self.sessions:
            # Unless its template shapes the prompts.
            templated = self._config.harness.get("apply_chat_template")
            self.sessions = self._open_sessions(self._make_lm() if templated else PlaceholderLM())
        super().restore(answers)
