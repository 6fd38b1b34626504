"""``rank --executor ray``: each model is an actor of a Ray cluster.

The Ranker and the journal stay with the *driver*, the process of the run; an *actor* is a process
on a node of the cluster that holds one model and only runs documents. When its node is lost, a new
actor, which Ray starts where it finds room, is asked its open documents again.

Ray counts a node's *resources*, CPUs and GPUs. What a model asks of them is its *bundle*; a *place*
is a bundle that is reserved on a node (Ray's placement group).
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from ..cluster import cause_of, connect
from ..records import Item
from .failures import ModelGone, PlaceLost
from .models import Answer, HarnessModel, Model

if TYPE_CHECKING:
    from ..harness import Administered
    from .run import Run

#: Seconds that an actor may take to load its model, once it has a node.
OPEN_SECONDS = 1800.0
#: Seconds for which the list of nodes, and the state of a place, are taken as they were.
POLL_SECONDS = 0.5
#: Most times that one model's actor may be lost before the model is given up.
LOSSES = 5
#: Nodes of a kind that may join where an autoscaler (which adds nodes on demand) states no maximum:
#: more than there are models.
MOST_NODES = 1000
#: Threads of an actor; a run never makes more concurrent calls than the model has slots.
ACTOR_THREADS = 256


class OpenedModel(NamedTuple):
    """What an actor says of the model that it has loaded; see `Model`."""

    slots: int
    batch: int
    warnings: list[str]


class ModelActor:
    """The remote side: a model of the harness on some node of the cluster."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        # As the harness's own command line sets it.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self.warnings: list[str] = []
        self.model = HarnessModel(**arguments, warn=self.warnings.append)

    def open(self) -> OpenedModel:
        """Load the model."""
        self.model.open()
        return OpenedModel(self.model.slots, self.model.batch, self.warnings)

    def ask(self, items: Sequence[Item]) -> tuple[list[Answer], list[Administered]]:
        """Run documents; return the answers, and what the harness logs about them."""
        answers = self.model.ask(items)
        return answers, [self.model.administered[answer.item] for answer in answers]


class Nodes:
    """The nodes of the cluster, and what they have in all, in use or free."""

    def __init__(self) -> None:
        self._listed, self._amounts = -math.inf, list[dict[str, float]]()

    @property
    def amounts(self) -> list[dict[str, float]]:
        """Amounts of each resource, by node that is alive."""
        ray: Any = import_module("ray")
        if time.monotonic() - self._listed > POLL_SECONDS:
            self._amounts = [node["Resources"] for node in ray.nodes() if node["Alive"]]
            self._listed = time.monotonic()
        return self._amounts

    @property
    def addable_nodes(self) -> list[dict[str, float]] | None:
        """Amounts of each resource, by node that an autoscaler may still add; None without one."""
        with suppress(ImportError, AttributeError):  # Ray tells it to its own libraries alone
            state = import_module("ray._private.state").state
            if config := state.get_cluster_config():
                return [
                    dict(group.resources)
                    for group in config.node_group_configs
                    for _ in range(self._n_to_come(group.resources, group.max_count))
                ]
        return None

    def _n_to_come(self, amounts: Mapping[str, float], maximum: int) -> int:
        """Return how many nodes of these amounts may still join, up to a maximum of them in all."""
        if maximum < 0:  # no limit
            return MOST_NODES
        # Nodes do not say which group they are of; those of one have as many CPUs and GPUs.
        n_present = sum(
            all(node.get(kind, 0.0) == amounts.get(kind, 0.0) for kind in ("CPU", "GPU"))
            for node in self.amounts
        )
        return max(maximum - n_present, 0)

    def may_hold(self, bundles: Sequence[Mapping[str, float]]) -> bool:
        """Whether each bundle finds a node that is there, or one that may still join."""
        addable_nodes = self.addable_nodes
        # Without an autoscaler's word people may add any node by hand.
        return addable_nodes is None or _hold([*self.amounts, *addable_nodes], bundles)

    def hold(self, bundles: Sequence[Mapping[str, float]]) -> bool:
        """Whether each bundle finds a node that is there."""
        return _hold(self.amounts, bundles)


def _hold(nodes: Sequence[Mapping[str, float]], bundles: Sequence[Mapping[str, float]]) -> bool:
    """Whether the nodes have room for all bundles together; the largest are placed first."""
    free = [dict(amounts) for amounts in nodes]
    sizes = [(bundle.get("GPU", 0.0), bundle.get("CPU", 0.0)) for bundle in bundles]
    for size in sorted(sizes, reverse=True):
        bundle = dict(zip(("GPU", "CPU"), size))
        able = (
            node for node in free if all(node.get(kind, 0.0) >= bundle[kind] for kind in bundle)
        )
        if (node := next(able, None)) is None:
            return False
        node.update({kind: node.get(kind, 0.0) - bundle[kind] for kind in bundle})
    return True


class RayModel(HarnessModel):
    """The driver's side of one actor."""

    def __init__(
        self, arguments: Mapping[str, Any], warn: Callable[[str], object], nodes: Nodes
    ) -> None:
        super().__init__(**arguments, warn=warn)
        self.memory = None  # Ray places models by their resources
        requested = {"CPU": self.entry.cpus, "GPU": self.entry.num_gpus}
        self.bundle = {kind: float(amount) for kind, amount in requested.items() if amount}
        self._nodes = nodes
        self._arguments = dict(arguments)
        self._place: Any = None  # resources that are reserved for it on a node
        self._actor: Any = None
        self._opening: Any = None  # what the actor will return once it has loaded the model
        # When the actor was started, and when Ray was last asked for the place.
        self._began = self._last_look = 0.0
        self._losses = 0  # how often its actor was lost
        self._lock = threading.Lock()

    # -- where it is -----------------------------------------------------------------------

    def fits_beside(self, others: Sequence[Model]) -> bool:
        """Whether the nodes hold it together with these models."""
        return self._nodes.hold([model.bundle for model in (self, *others) if model.bundle])

    def may_come_to_fit(self, models: Sequence[Model]) -> bool | None:
        """Whether it may come to fit beside others, as an autoscaler adds nodes; None without."""
        if self._nodes.addable_nodes is None:
            return None
        return self._nodes.may_hold([model.bundle for model in (self, *models) if model.bundle])

    @property
    def missing(self) -> str:
        """What it waits for; "" once it has a node."""
        if self._actor is not None or not self.bundle:
            return ""
        ray: Any = import_module("ray")
        amounts = " and ".join(f"{amount:g} {kind}s" for kind, amount in self.bundle.items())
        free, total = ray.available_resources(), ray.cluster_resources()
        counts = (f"{free.get(k, 0.0):g} of {total.get(k, 0.0):g} {k}s" for k in self.bundle)
        return f"it asks for {amounts}; free in the cluster: {', '.join(counts)}"

    @property
    def too_large(self) -> bool:
        """Whether neither a node of the cluster nor one that its autoscaler may add holds it."""
        return bool(self.bundle) and not self._nodes.may_hold([self.bundle])

    def ready(self) -> bool:
        """Reserve a place, start the actor there and let it load; whether `open` need not wait.

        It need not if the model is loaded, or if `open` raises an error.
        """
        import ray

        moment = time.monotonic()
        if self._losses > LOSSES:
            return True
        if self._actor is None:
            if not self._reserve(moment):
                return False
            self._start()
            self._began = moment
        if ray.wait([self._opening], timeout=0)[0]:
            return True
        # A node that is gone takes its place along, whether or not Ray knows that yet.
        if self.bundle and moment - self._last_look > POLL_SECONDS and not self._reserve(moment):
            self._leave()
            return False
        return moment - self._began > OPEN_SECONDS

    def _reserve(self, moment: float) -> bool:
        """Whether its place is reserved; request it if nobody has. False too soon after a look."""
        from ray.util.placement_group import placement_group, placement_group_table

        if not self.bundle:
            return True
        # The request stays open until a node has room; an autoscaler adds nodes for such requests.
        if self._place is None:
            self._place, self._last_look = placement_group([self.bundle]), 0.0
        if moment - self._last_look <= POLL_SECONDS:
            return False
        self._last_look = moment
        return bool(placement_group_table(self._place)["state"] == "CREATED")

    def _start(self) -> None:
        """Start the actor, in the place that is reserved for it, and let it load the model."""
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        scheduling: dict[str, Any] = {}
        if self._place is not None:
            scheduling["scheduling_strategy"] = PlacementGroupSchedulingStrategy(self._place)
        remote = ray.remote(ModelActor).options(
            num_cpus=self.entry.cpus,
            num_gpus=self.entry.num_gpus,
            max_concurrency=ACTOR_THREADS,
            max_restarts=0,
            **scheduling,
        )
        actor: Any = remote.remote(self._arguments)
        self._actor, self._opening = actor, actor.open.remote()

    def _leave(self) -> None:
        """End the actor, and free its resources."""
        import ray
        from ray.util.placement_group import remove_placement_group

        actor, place = self._actor, self._place
        self._actor = self._opening = self._place = None
        if actor is not None:
            ray.kill(actor)
        if place is not None:
            remove_placement_group(place)

    def _lost(self, actor: Any) -> PlaceLost:
        """Free the place of an actor that was lost; return the error that says so."""
        with self._lock:
            # Calls in flight report the same loss, each from its own thread.
            if self._actor is actor:
                self._losses += 1
                self._leave()
        return PlaceLost(f"the node of {self.name} was lost")

    def _require_few_losses(self) -> None:
        """Give the model up if its actor was lost too often.

        Raises
        ------
        ModelGone
        """
        if self._losses > LOSSES:
            raise ModelGone(f"its actor was lost {self._losses} times; giving up")

    # -- what a run calls ------------------------------------------------------------------

    def open(self) -> None:
        """Wait until the actor has loaded the model.

        Raises
        ------
        PlaceLost
            Its node was lost while it was loading.
        ModelGone
            It was lost too often, or does not load.
        """
        import ray

        while not self.ready():
            time.sleep(POLL_SECONDS)
        self._require_few_losses()
        actor = self._actor
        try:
            opened: OpenedModel = ray.get(self._opening, timeout=POLL_SECONDS)
        except ray.exceptions.GetTimeoutError as error:
            self._leave()
            raise ModelGone(f"it was not loaded within {OPEN_SECONDS:g} s") from error
        except ray.exceptions.RayTaskError as error:
            raise cause_of(error) from None
        except ray.exceptions.RayError as error:
            raise self._lost(actor) from error
        self.slots, self.batch = opened.slots, opened.batch
        for warning in opened.warnings:
            self._warn(warning)

    def ask(self, items: Sequence[Item]) -> list[Answer]:
        """Ask the actor.

        Raises
        ------
        PlaceLost
            Its node was lost; the model may be opened again.
        ModelGone
            It was lost too often.
        """
        import ray

        if (actor := self._actor) is None:
            self._require_few_losses()
            raise PlaceLost(f"the node of {self.name} was lost")
        try:
            answers, administered = ray.get(actor.ask.remote(list(items)))
        except ray.exceptions.RayTaskError as error:
            raise cause_of(error) from None
        except ray.exceptions.RayError as error:
            raise self._lost(actor) from error
        self.administered.update(zip((answer.item for answer in answers), administered))
        return list(answers)

    def close(self) -> None:
        """End the actor and free its resources."""
        super().close()
        with self._lock:
            self._leave()


def ray_models(address: str | None, run: Run) -> list[RayModel]:
    """Return one actor per model, on the cluster at `address` or a local one; starts none yet."""
    connect(address)
    arguments = {"spec": run.plan.spec, "outcomes_by_task": run.plan.outcomes_by_task}
    nodes = Nodes()
    return [RayModel({"entry": entry, **arguments}, run.warn_once, nodes) for entry in run.asked]
