"""From the state of a ranking to its `Ranking`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from .. import __version__
from ..bank import ItemBank
from ..errors import UsageError
from ..methods.policy import DECIDED, EQUIVALENT, OPEN, Floats, Policy
from ..metrics.scale import Scale
from .across import Across
from .audit import Audits
from .contents import Contents
from .ledger import Account
from .outcomes import Outcome, Outcomes
from .outlook import open_pairs
from .placement import among_known
from .ranks import chances_of_top, draw_scores, tie_groups
from .result import Ranking, signature
from .standing import Standing
from .stopping import AllDecided, Budget, MaxItems, TopDecided, has_goal
from .turn import Turns
from .weighted import WeightedPolicy

_WORDS = {OPEN: "open", DECIDED: "decided", EQUIVALENT: "equivalent"}
_TOPS = (1, 3, 5, 10)


def rank_models(standing: Standing, tops: Sequence[int] = (), **facts: Any) -> Ranking:
    """The ranking of the models that are tested.

    Parameters
    ----------
    standing : Standing
    tops : sequence of int, optional
        Further k of which to say how probable it is to be among the best k.
    **facts
        Fields of `Ranking` that do not follow from `standing`.
    """
    policy, accounts, order = standing.policy, standing.ledger.accounts, standing.order
    names = [a.name for a in accounts]
    ranked = [names[j] for j in order]
    p, decisions = policy.pairwise(), standing.decisions
    pairs = [(a, b) for a in sorted(order) for b in sorted(order) if a != b]
    ties = tie_groups(ranked, (standing.adjacent() != DECIDED).tolist())
    at = {name: j for j, name in enumerate(names)}
    best, worst, _ = standing.ranges()
    p_top = _chances(standing, ranked, p, tops)
    facts = {"cost": {a.name: a.spent for a in accounts}, **facts}
    return Ranking(
        order=ranked,
        estimates={n: policy.estimate(j)[0] for j, n in enumerate(names)},
        standard_errors={n: policy.estimate(j)[1] for j, n in enumerate(names)},
        intervals={n: policy.interval(j, standing.confidence) for j, n in enumerate(names)},
        pairwise={(names[a], names[b]): float(p[a, b]) for a, b in pairs},
        decisions={(names[a], names[b]): _WORDS[int(decisions[a, b])] for a, b in pairs},
        ties=ties,
        separated_within_ties=[
            (a, b)
            for group in ties
            for i, a in enumerate(group)
            for b in group[i + 1 :]
            if decisions[at[a], at[b]] == DECIDED
        ],
        findings={n: f for j, n in enumerate(names) if (f := policy.findings(j))},
        rank_ranges={names[j]: (int(best[j]), int(worst[j])) for j in order},
        p_best=p_top[1],
        p_top=p_top,
        expected_wrong=float(
            sum(min(p[a, b], p[b, a]) for a, b in pairs if a < b and decisions[a, b] == DECIDED)
        ),
        open_pairs=open_pairs(standing, facts["items"], facts["cost"], facts["n_items"]),
        confidence=standing.confidence,
        **facts,
    )


def _chances(
    standing: Standing, ranked: list[str], p: Floats, tops: Sequence[int]
) -> dict[int, dict[str, float]]:
    """Probability of being among the best k, by k."""
    order, names = standing.order, ranked
    wanted = [1, *(k for k in sorted({*_TOPS[1:], *tops}) if 1 < k < len(order))]
    if standing.known is None and len(order) == 2:  # what `pairwise` says exactly
        chance = float(p[order[0], order[1]])
        return {1: {ranked[0]: chance, ranked[1]: 1.0 - chance}}
    if not order:
        return {1: {}}
    d, o = standing.policy.differences(), np.asarray(order, dtype=np.intp)
    pairs = np.ix_(o, o)
    df = float(d.df[pairs][~np.eye(len(o), dtype=bool)].min(initial=np.inf))
    known = standing.known
    error = None if known is None else standing.errors()[o]
    scores = draw_scores(d.estimate[o], d.variance[pairs], df, error)
    if known is not None:
        wanted = sorted({*_TOPS, *tops})
        others, theirs = known.draw(max(wanted), len(scores))
        names = [*ranked, *others]
        scores = np.concatenate([scores[: len(theirs)], theirs], axis=1)
    found = chances_of_top(scores, wanted)
    return {k: dict(zip(names, chance.tolist())) for k, chance in found.items()}


class Summary:
    """Puts a ranking's results together, of the whole and of its parts."""

    def __init__(
        self,
        contents: Contents,
        outcomes: Outcomes,
        standing: Standing,
        turns: Turns,
        audits: Audits,
        groups: Mapping[str, Mapping[str, float] | Sequence[str]],
        across: Across | None,
        options: Mapping[str, Any],
    ) -> None:
        self._across = across
        self._contents = contents
        self._outcomes = outcomes
        self._standing = standing
        self._turns = turns
        self._audits = audits
        self._options = {k: v for k, v in sorted(options.items()) if v is not None}
        self._groups = {name: self._policy_of(w) for name, w in _groups(contents, groups).items()}

    def _policy_of(self, weights: Mapping[int, Mapping[str, float]]) -> WeightedPolicy:
        units = self._standing.ledger.units
        return WeightedPolicy(self._outcomes, units, weights, self._across)

    def ranking(self, done: bool) -> Ranking:
        """The ranking as it stands."""
        standing, contents, accounts = self._standing, self._contents, self._accounts
        rule = self._turns.rule
        goal = rule if has_goal(rule) else AllDecided()
        facts: dict[str, Any] = {
            "items": {a.name: [contents.item(i) for i in a.told] for a in accounts},
            "draws": {
                a.name: [(contents.item(i), a.probability[i]) for i in a.told if i in a.probability]
                for a in accounts
                if a.probability
            },
            "failed": {
                a.name: {contents.item(i): r for i, r in a.failed.items()} for a in accounts
            },
            "set_aside": self._set_aside,
            "stopped_because": self._why_stopped(done),
            "goal_met": goal.met(standing),
            "n_items": contents.n_items,
            "scale": contents.scale,
            "signature": self.signature,
        }
        if contents.single:
            facts |= self._details(0, self._outcomes.of_task[0][0])
        else:
            facts["abilities"] = {}
            facts["weights"] = {t.name: sum(t.weights.values()) for t in contents.tasks}
        if contents.named:
            facts["tasks"] = {t.name: self._task(n) for n, t in enumerate(contents.tasks)}
        if self._groups:
            facts["groups"] = {
                name: self._part(policy, policy.tasks, contents.scale, name)
                for name, policy in self._groups.items()
            }
        tops = [r.k for r in rule.parts() if isinstance(r, TopDecided)]
        ranking = rank_models(standing, tops, **facts)
        known = standing.known
        return ranking if known is None else among_known(ranking, known, standing)

    @property
    def _accounts(self) -> list[Account]:
        return self._standing.ledger.accounts

    @property
    def _set_aside(self) -> dict[str, str]:
        return {a.name: a.dropped for a in self._accounts if a.dropped is not None}

    # -- parts --------------------------------------------------------------------------------

    def _task(self, t: int) -> Ranking:
        outcomes, task = self._outcomes.of_task[t], self._contents.tasks[t]
        parts = {o.name: self._outcome(t, o) for o in outcomes}
        if len(parts) == 1:
            return parts[outcomes[0].name]
        total = sum(task.weights.values())
        weights = {k: w / total for k, w in task.weights.items()}
        policy = self._policy_of({t: weights})
        found = self._part(policy, [t], self._contents.scale, task.name)
        return replace(found, outcomes=parts, weights=weights)

    def _outcome(self, t: int, outcome: Outcome) -> Ranking:
        details = self._details(t, outcome)
        policy: Policy = outcome.policy
        if self._across is not None and t in self._across.tasks:
            policy = self._policy_of({t: {outcome.name: 1.0}})
        found = self._part(policy, [t], outcome.bank.scale, self._of_bank(outcome.bank), **details)
        # An answer may lack an outcome, whose judge failed, say.
        scored = {
            a.name: [outcome.bank.doc_ids[i] for i in scores]
            for a, scores in zip(self._accounts, outcome.scores)
        }
        return replace(found, items=scored)

    def _details(self, t: int, outcome: Outcome) -> dict[str, Any]:
        """Abilities, samples and audits, which only an outcome by itself has."""
        n, name = len(self._accounts), self._contents.tasks[t].name
        where = self._contents.tasks[t].where
        names = [a.name for a in self._accounts]
        found: dict[str, Any] = {
            "abilities": {names[j]: outcome.policy.ability(j) for j in range(n)}
        }
        samples = {names[j]: outcome.policy.sample(j) for j in range(n)}
        found["samples"] = {name: s for name, s in samples.items() if s is not None}
        if self._turns.audit:
            failed = [sum(where.start <= i < where.stop for i in a.failed) for a in self._accounts]
            confidence = self._standing.confidence
            found["audits"] = {
                names[j]: self._audits.of(name, outcome, j, failed[j], confidence) for j in range(n)
            }
        return found

    def _part(
        self, policy: Policy, tasks: Sequence[int], scale: Scale, signature: str, **facts: Any
    ) -> Ranking:
        """What is known of some tasks by themselves; items as these tasks name them."""
        slices = [self._contents.tasks[t].where for t in tasks]

        def named(i: int) -> Any:
            return self._contents.item(i) if len(tasks) > 1 else self._contents.doc_id(i)

        def own(items: Iterable[int]) -> list[int]:
            return [i for i in items if any(s.start <= i < s.stop for s in slices)]

        return rank_models(
            self._standing.of(policy),
            items={a.name: [named(i) for i in own(a.told)] for a in self._accounts},
            draws={
                a.name: [(named(i), a.probability[i]) for i in own(a.told) if i in a.probability]
                for a in self._accounts
                if a.probability
            },
            failed={a.name: {named(i): a.failed[i] for i in own(a.failed)} for a in self._accounts},
            cost={a.name: sum(a.spent_on[t] for t in tasks) for a in self._accounts},
            set_aside=self._set_aside,
            stopped_because="",
            n_items=sum(s.stop - s.start for s in slices),
            scale=scale,
            signature=signature,
            **{"abilities": {}, **facts},
        )

    # -- words --------------------------------------------------------------------------------

    @property
    def signature(self) -> str:
        """What a reader needs to reproduce the ranking, in one line."""
        contents, turns, known = self._contents, self._turns, self._standing.known
        banks = [b for t in contents.tasks for b in t.banks.values()]
        what: dict[str, Any] = {}
        if contents.single:
            b = banks[0]
            what = {"task": b.task, "metric": b.metric, "filter": b.filter, "bank": b.short_hash}
        else:
            what["tasks"] = "+".join(
                f"{w:.4g} x {t.name}/{k}/{t.banks[k].short_hash}"
                for t in contents.tasks
                for k, w in t.weights.items()
            )
        return signature(
            {
                **what,
                "method": banks[0].method,
                "confidence": f"{self._standing.confidence:g}",
                "warmup": turns.warmup,
                "audit": turns.audit or None,
                "exposure": turns.exposure if turns.exposure > 1 else None,
                "known": None if known is None else len(known.names),
                "seed": turns.seed,
                **self._options,
                "ccat": __version__,
            }
        )

    def _of_bank(self, b: ItemBank) -> str:
        found = {"task": b.task, "metric": b.metric, "filter": b.filter, "bank": b.short_hash}
        return signature({**found, "method": b.method, "ccat": __version__})

    def _why_stopped(self, done: bool) -> str:
        turns, standing = self._turns, self._standing
        if turns.stopped is not None:
            return turns.stopped
        if not done:
            return ""
        rule, accounts = turns.rule, self._accounts
        if not turns.unsettled():
            return rule.why(standing) or "no model is left"
        models = turns.unsettled()
        seats = [accounts[j] for j in models]
        if any(a.n < turns.cap and a.left.any() for a in seats):
            return Budget(standing.ledger.budget).why(standing)
        if not any(a.left.any() for a in seats):
            return "every item was administered"
        return MaxItems(turns.cap).why(standing)


def _groups(
    contents: Contents, groups: Mapping[str, Mapping[str, float] | Sequence[str]]
) -> dict[str, dict[int, dict[str, float]]]:
    """Weights of the outcomes of each group, by task number, summing to 1."""
    found: dict[str, dict[int, dict[str, float]]] = {}
    for name, given in groups.items():
        of = dict(given) if isinstance(given, Mapping) else dict.fromkeys(given, 1.0)
        unknown = [t for t in of if t not in contents.of_task]
        if unknown or not of:
            raise UsageError(f"group {name!r} has no task {unknown[0] if unknown else ''!r}")
        total = sum(of.values())
        if not total > 0.0 or min(of.values()) < 0.0:
            raise UsageError(f"group {name!r}: weights must be numbers above 0")
        found[name] = {}
        for task, w in of.items():
            inner = contents.tasks[contents.of_task[task]].weights
            share = w / total / sum(inner.values())
            found[name][contents.of_task[task]] = {k: share * x for k, x in inner.items()}
    return found
