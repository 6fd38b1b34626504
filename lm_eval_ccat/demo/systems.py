"""The demo's summarisers as a model type of the harness: ``--model ccat-demo``."""

from __future__ import annotations

import time
from typing import Any

from ..errors import HarnessError
from ..harness.internals.bases import LM
from .summarisers import SUMMARISERS


class DemoSystem(LM):  # type: ignore[misc]
    """One summariser behind the harness's model interface.

    Parameters
    ----------
    system : str
        One of :data:`~lm_eval_ccat.demo.summarisers.SUMMARISERS`.
    delay : float
        Seconds that each answer takes, to look like a model that is worth waiting for.

    Examples
    --------
    ``lm-eval-ccat run --model ccat-demo --model_args system=lead-11 --tasks ccat_demo ...``
    """

    def __init__(
        self, system: str = "lead-11", delay: float = 0.0, batch_size: Any = 1, **ignored: Any
    ) -> None:
        super().__init__()
        if system not in SUMMARISERS:
            known = ", ".join(SUMMARISERS)
            raise HarnessError(f"ccat-demo has no system {system!r}; it has: {known}")
        self.system = system
        self.delay = float(delay)
        self.batch_size = batch_size
        self._summarise = SUMMARISERS[system]

    @property
    def tokenizer_name(self) -> str:
        """Nothing is tokenised; the name only separates caches."""
        return "ccat-demo"

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """One line per request; the prompt's last paragraph is the question."""
        answers = []
        for request in requests:
            if self.delay:
                time.sleep(self.delay)
            # The prompt as the demo's task writes it: name, body, question.
            text = request.args[0].rpartition("\n\n")[0] or request.args[0]
            name, newline, body = text.partition("\n")
            answer = self._summarise(name, body) if newline else self._summarise("", text)
            self.cache_hook.add_partial("generate_until", request.args, answer)
            answers.append(answer)
        return answers

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        """Refused: a summariser gives no probabilities."""
        raise HarnessError("ccat-demo only generates text; use a task of type generate_until")

    loglikelihood_rolling = loglikelihood
