"""``rank --executor ray``: each model is an actor of a Ray cluster.

The Ranker and the journal stay with the driver; an actor only runs documents. When its node is
lost, a new actor, which Ray starts where it finds room, is asked its open documents again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..cluster import cause_of, connect
from ..records import Item
from .failures import ModelGone
from .models import Answer, HarnessModel

if TYPE_CHECKING:
    from ..harness import Administered
    from .run import Run

logger = logging.getLogger(__name__)

#: Seconds that an actor may take to load its model, once it has a node.
OPEN_SECONDS = 1800.0
#: Seconds between two reports of what is missing while a model waits for a node.
SAY_SECONDS = 10.0
#: Most restarts of one model's actor.
RESTARTS = 5
#: Threads of an actor; a run never makes more concurrent calls than the model has slots.
ACTOR_THREADS = 256


class ActorLost(ConnectionError):
    """The node or process of an actor died; its calls can be repeated."""


class ModelActor:
    """The remote side: a model of the harness on some node of the cluster."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        import os

        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self.warnings: list[str] = []
        self.model = HarnessModel(**arguments, warn=self.warnings.append)

    def open(self) -> tuple[int, int, list[str]]:
        """Load the model; return (concurrent calls, documents per call, warnings)."""
        self.model.open()
        return self.model.slots, self.model.batch, self.warnings

    def ask(self, items: Sequence[Item]) -> tuple[list[Answer], list[Administered]]:
        """Run documents; return the answers, and what the harness logs about them."""
        answers = self.model.ask(items)
        return answers, [self.model.administered[answer.item] for answer in answers]


class RayModel(HarnessModel):
    """The driver's side of one actor."""

    def __init__(self, arguments: Mapping[str, Any], warn: Callable[[str], object]) -> None:
        super().__init__(**arguments, warn=warn)
        self.memory = None  # Ray places models by their resources
        self._arguments = dict(arguments)
        self._actor: Any = None
        self._place: Any = None
        self._starts = 0
        self._gone: ModelGone | None = None
        self._lock = threading.Lock()

    def open(self) -> None:
        """Start the actor and load the model on its node."""
        with self._lock:
            self._start()

    def _start(self) -> None:
        import ray

        if self._gone is not None:  # another thread of this model has given up
            raise self._gone
        self._starts += 1
        if self._starts > RESTARTS + 1:
            raise ModelGone(f"its actor was lost {RESTARTS + 1} times; giving up")
        self._leave_place()
        where = self._find_place()
        remote = ray.remote(ModelActor).options(
            num_cpus=self.entry.cpus,
            num_gpus=self.entry.num_gpus,
            max_concurrency=ACTOR_THREADS,
            max_restarts=0,
            **where,
        )
        actor: Any = remote.remote(self._arguments)
        try:
            self.slots, self.batch, warnings = ray.get(actor.open.remote(), timeout=OPEN_SECONDS)
        except ray.exceptions.GetTimeoutError as error:
            ray.kill(actor)
            raise ActorLost(f"{self.name} was not loaded within {OPEN_SECONDS:g} s") from error
        except ray.exceptions.RayTaskError as error:
            raise cause_of(error) from None
        except ray.exceptions.RayError as error:
            raise ActorLost(f"the node of {self.name} was lost while it was loading") from error
        self._actor = actor
        for warning in warnings:
            self._warn(warning)

    def _find_place(self) -> dict[str, object]:
        """Reserve the actor's resources, and wait for them as long as a model may be away."""
        from ray.util.placement_group import placement_group
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        requested = {"CPU": self.entry.cpus, "GPU": self.entry.num_gpus}
        bundle = {kind: amount for kind, amount in requested.items() if amount}
        if not bundle:
            return {}
        limit = 60.0 * self._spec.failures.outage_minutes
        began, self._place = time.monotonic(), placement_group([bundle])
        while not self._place.wait(timeout_seconds=min(SAY_SECONDS, limit)):
            amounts = " and ".join(f"{amount:g} {kind}s" for kind, amount in bundle.items())
            missing = f"it asks for {amounts}; {_free(bundle)}"
            if time.monotonic() - began >= limit:
                self._leave_place()
                self._gone = ModelGone(f"no node had room for it within {limit:g} s: {missing}")
                raise self._gone
            self._warn(f"{self.name} is waiting for a node: {missing}")
        return {"scheduling_strategy": PlacementGroupSchedulingStrategy(self._place)}

    def _leave_place(self) -> None:
        """Free the reserved resources."""
        from ray.util.placement_group import remove_placement_group

        if self._place is not None:
            remove_placement_group(self._place)
            self._place = None

    def ask(self, items: Sequence[Item]) -> list[Answer]:
        """Ask the actor; replace a lost actor, and raise an error after which the run retries."""
        import ray

        actor = self._actor
        try:
            answers, administered = ray.get(actor.ask.remote(list(items)))
        except ray.exceptions.RayTaskError as error:
            raise cause_of(error) from None
        except ray.exceptions.RayError as error:
            self._replace(actor)
            raise ActorLost(f"the node of {self.name} was lost") from error
        self.administered.update({answer.item: a for answer, a in zip(answers, administered)})
        return list(answers)

    def _replace(self, lost: Any) -> None:
        with self._lock:
            if self._actor is not lost:
                return  # another thread of this model has replaced it
            logger.warning("%s: its node was lost; starting it again", self.name)
            self._start()

    def close(self) -> None:
        """End the actor and free its resources."""
        import ray

        super().close()
        with self._lock:
            if self._actor is not None:
                ray.kill(self._actor)
                self._actor = None
            self._leave_place()


def _free(bundle: Mapping[str, float]) -> str:
    """Say how much of what is requested is free in the cluster."""
    ray: Any = import_module("ray")
    free, total = ray.available_resources(), ray.cluster_resources()
    counts = (f"{free.get(k, 0.0):g} of {total.get(k, 0.0):g} {k}s" for k in bundle)
    return f"free in the cluster: {', '.join(counts)}"


def ray_models(address: str | None, run: Run) -> list[RayModel]:
    """Return one actor per model, on the cluster at `address` or a local one; starts none yet."""
    connect(address)
    arguments = {"spec": run.plan.spec, "measured": run.plan.measured}
    return [RayModel({"entry": entry, **arguments}, run.warn_once) for entry in run.asked]
