"""From the state of a ranking to its `Ranking`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import __version__
from ..bank.outcome import Outcome
from ..methods.belief import BENCHMARK, POPULATION, Belief
from ..methods.policy import Description
from ..metrics.scale import Scale
from .allocation import Turns
from .audit import Audits
from .contents import groups_of
from .ledger import Account
from .looks import Looks
from .outcomes import Outcomes
from .result import Brief, Ranking, signature
from .rows import Estimate, ModelRow, PairRow, Placement
from .stopping import AllDecided, MaxItems, TopDecided, budget_used_up, has_goal
from .verdicts import DECIDED, WORDS, Verdicts
from .weighted import WeightedSum

_TOPS = (1, 3, 5, 10)


class Summary:
    """Puts a ranking's results together, of the whole and of its parts.

    Parameters
    ----------
    turns : Turns
    outcomes : Outcomes
    audits : Audits
    groups : mapping of str to (mapping of task to weight, or sequence of tasks)
    options : mapping
        Further arguments of the ranking, for the signature.
    """

    def __init__(
        self,
        turns: Turns,
        outcomes: Outcomes,
        audits: Audits,
        groups: Mapping[str, Mapping[str, float] | Sequence[str]],
        options: Mapping[str, Any],
    ) -> None:
        self._turns, self._standing, self._ledger = turns, turns.standing, turns.ledger
        self._all, self._audits, self._contents = outcomes, audits, outcomes.contents
        self._options = {k: v for k, v in sorted(options.items()) if v is not None}
        factors = groups_of(self._contents, groups)
        #: Sums of some of the tasks, by group.
        self.groups = {name: self._standing.score.of(factor) for name, factor in factors.items()}

    def ranking(self, done: bool) -> Ranking:
        """The current ranking."""
        standing, contents, rule = self._standing, self._contents, self._turns.rule
        goal = rule if has_goal(rule) else AllDecided()
        tops = [r.k for r in rule.parts() if isinstance(r, TopDecided)]
        several = len(contents.outcomes) > 1
        by_task = len(contents.tasks) > 1 or not contents.bare
        return replace(
            self._rows(standing.score, standing.latest, self.signature, tops),
            stopped_because=self._why_stopped(done),
            goal_met=goal.met(standing),
            tasks={t.name: self._task(n) for n, t in enumerate(contents.tasks)} if by_task else {},
            outcomes=self._outcomes(0) if several and not by_task else {},
            weights={t.name: t.weight for t in contents.tasks} if several else {},
            groups={name: self._rows(score) for name, score in self.groups.items()},
        )

    def _task(self, t: int) -> Ranking:
        task, outcomes = self._contents.tasks[t], self._outcomes(t)
        if len(outcomes) == 1:
            return next(iter(outcomes.values()))
        whole = self._rows(self._standing.score.of({t: 1.0 / task.weight}))
        weights = {o.name: o.weight / task.weight for o in task.outcomes}
        return replace(whole, outcomes=outcomes, weights=weights)

    def _outcomes(self, t: int) -> dict[str, Ranking]:
        """A ranking by each outcome of a task by itself."""
        out = {}
        for one in self._all.of_task[t]:
            o, score = one.outcome, self._standing.score.of({t: 1.0}, one)
            line = signature({**_what(o), "method": o.bank.method, "ccat": __version__})
            out[o.name] = self._rows(score, line=line)
        return out

    def brief(self) -> Brief:
        """Order, ties and estimates alone: for who looks many times."""
        standing = self._standing
        if standing.references is not None:
            ranking = self.ranking(False)
            intervals = {m: ranking.interval(m) for m in ranking.estimates}
            return Brief(ranking.order, ranking.ties, ranking.estimates, intervals)
        v, score = standing.latest, standing.score
        belief = standing.belief(v.belief.question, score).on_scores
        each = {
            a.name: _estimate(belief, a.at, v.looks.anew, _description(score, a.at))
            for a in self._ledger.accounts
        }
        intervals = {name: e.interval(v.confidence) for name, e in each.items()}
        return Brief(v.order, v.ties, {name: e.mean for name, e in each.items()}, intervals)

    # -- rows ---------------------------------------------------------------------------------

    def _rows(
        self,
        score: WeightedSum,
        v: Verdicts | None = None,
        line: str = "",
        tops: Sequence[int] = (),
    ) -> Ranking:
        """A ranking by one score; by a first look where there are no verdicts yet."""
        v, tasks = v or self._standing.first_look(score), self._contents.tasks
        items = sum(len(tasks[t].kept) for t in score.tasks)
        looks, scales = v.looks.anew, [o.outcome.scale for o in score.outcomes]
        models = self._models(v, score, tops)
        return Ranking(
            models=tuple(models),
            pairs=tuple(self._pairs(v, score)),
            order=v.order,
            ties=v.ties,
            separated_within_ties=v.separated_within_ties,
            open_pairs=v.missing(items, {m.name: m.cost / len(m.items) for m in models if m.items}),
            withdrawn=v.withdrawn,
            expected_wrong=v.expected_wrong,
            question=v.belief.question,
            confidence=v.confidence,
            level_spent=1.0 if looks.once else looks.spent(v.belief.n_items),
            n_items=items,
            scale=scales[0] if all(s == scales[0] for s in scales) else Scale(),
            signature=line or "+".join(tasks[t].name for t in score.tasks),
            verdicts=v,
        )

    def _models(self, v: Verdicts, score: WeightedSum, tops: Sequence[int]) -> list[ModelRow]:
        belief = self._standing.belief(v.belief.question, score).on_scores
        rank = {name: n for n, name in enumerate(v.order, 1)}
        chances = v.p_top([k for k in sorted({*_TOPS, *tops}) if k == 1 or k < len(rank)])
        p_top = {m: {k: c[m] for k, c in chances.items() if m in c} for m in v.names}
        ranges, first, out = v.rank_ranges, score.outcomes[0], []
        for account in self._ledger.accounts:
            j, name = account.at, account.name
            about = _description(score, j)
            drawn = about.drawn if about else None
            estimate = _estimate(belief, j, v.looks.anew, about)
            items, draws, failed = self._books(account, score)
            audit = None
            if about and self._audits.share:
                audit = self._audits.of(first, j, estimate.mean, v.confidence)
            out.append(
                ModelRow(
                    name=name,
                    estimate=estimate,
                    interval=estimate.interval(v.confidence),
                    rank=rank.get(name),
                    rank_range=ranges.get(name),
                    p_top=p_top.get(name, {}),
                    bound=self._bound(account, score, replace(estimate, lean=0.0), v.confidence),
                    cost=sum(account.spent_on[t] for t in score.tasks),
                    set_aside=account.dropped,
                    findings=score.findings(j),
                    place=Placement.of(v, name) if v.belief.references and name in rank else None,
                    items=items,
                    draws=draws,
                    failed=failed,
                    ability=(about.ability, about.ability_error) if about else None,
                    sample=drawn if drawn and drawn.n > 1 else None,
                    audit=audit,
                )
            )
        if (r := v.belief.references) is None:
            return out
        for name, mean, error in zip(r.names, r.estimate.tolist(), r.error.tolist()):
            estimate = Estimate(mean, error)
            interval = estimate.interval(v.confidence)
            at = rank[name], ranges[name], p_top[name]
            out.append(ModelRow(name, estimate, interval, True, *at))
        return out

    def _books(
        self, account: Account, score: WeightedSum
    ) -> tuple[list[Any], list[tuple[Any, float]], dict[Any, str]]:
        """Items of a model by what became of them, as `ModelRow` has them."""
        contents, whole = self._contents, score is self._standing.score
        name = contents.item if whole or len(score.tasks) > 1 else contents.doc_id
        items = [i for i in account.told if contents.task_at(i) in score.tasks]
        if len(score.outcomes) == 1 and not whole:
            # An answer may lack an outcome, whose judge failed, say.
            start = contents.tasks[score.tasks[0]].start
            scored = score.outcomes[0].scores[account.at]
            items = [i for i in items if i - start in scored]
        failed = [i for i in account.failed if contents.task_at(i) in score.tasks]
        draws = [(name(i), account.probability[i]) for i in items if i in account.probability]
        return [name(i) for i in items], draws, {name(i): account.failed[i] for i in failed}

    def _bound(
        self, account: Account, score: WeightedSum, estimate: Estimate, confidence: float
    ) -> tuple[float, float] | None:
        """The interval if every failed item had scored 0, or 1, and so all that it stands for."""
        down = up = 0.0
        for t, weight in zip(score.tasks, score.weights):
            at = self._contents.tasks[t].where
            if failed := [i - at.start for i in account.failed if at.start <= i < at.stop]:
                leader = self._all.leader(t)
                expected = leader.policy.expected(account.at)[failed]
                asked = len(failed) + len(leader.scores[account.at])
                down += weight * float(expected.sum()) / asked
                up += weight * float((1.0 - expected).sum()) / asked
        if not (down or up):
            return None
        low, high = estimate.interval(confidence)
        return max(low - down, 0.0), min(high + up, 1.0)

    def _pairs(self, v: Verdicts, score: WeightedSum) -> list[PairRow]:
        """Pairs with a tested model, best first."""
        m, order, out = len(v.tested), v.rows.tolist(), []
        better, needed, state = v.better.tolist(), v.needed().tolist(), v.state.tolist()
        stands, barred, below = None, v.barred.tolist(), {i: n for n, i in enumerate(order)}
        whole = v.belief.references is not None or score is self._standing.score
        if whole and v.belief.question == BENCHMARK and m > 1:
            p = self._standing.first_look(question=POPULATION)
            stands = ((p.sign == v.sign[:, :m]) & (p.state == DECIDED)).tolist()
        for i in (i for i in order if i < m):
            for j in order:
                if j == i or (j < m and below[j] < below[i]):
                    continue
                a, b = (i, j) if below[i] < below[j] else (j, i)
                p_a = better[i][j] if a == i else 1.0 - better[i][j]
                stand = stands[i][j] if stands and j < m else None
                row = needed[i][j], WORDS[state[i][j]], stand, barred[i][j]
                out.append(PairRow(v.names[a], v.names[b], p_a, *row))
        return out

    # -- words --------------------------------------------------------------------------------

    @property
    def signature(self) -> str:
        """What a reader needs to reproduce the ranking, in one line."""
        turns, standing, outcomes = self._turns, self._standing, self._contents.outcomes
        what = _what(outcomes[0])
        if len(outcomes) > 1:
            each = (f"{o.weight:.4g} x {o.task}/{o.name}/{o.bank.short_hash}" for o in outcomes)
            what = {"tasks": "+".join(each)}
        references = standing.references
        return signature(
            {
                **what,
                "method": outcomes[0].bank.method,
                "confidence": f"{standing.confidence:g}",
                "question": None if standing.question == BENCHMARK else standing.question,
                "looks": "one" if standing.looks.once else None,
                "warmup": turns.warmup,
                "audit": turns.audit_share or None,
                "exposure": turns.exposure if turns.exposure > 1 else None,
                "known": None if references is None else len(references.names),
                "seed": turns.seed,
                **self._options,
                "ccat": __version__,
            }
        )

    def _why_stopped(self, done: bool) -> str:
        turns, ledger, standing = self._turns, self._ledger, self._standing
        if turns.stopped is not None:
            return turns.stopped
        if not done:
            return ""
        open_ = [a for a, wanted in zip(ledger.accounts, turns.wanted()) if wanted]
        if not open_:
            if not ledger.active:
                return "no model is left"
            if standing.barred and not turns.rule.met(standing):
                return "no open pair may be decided"
            return turns.rule.why(standing) or "no model is left"
        if any(a.n < turns.cap and a.left.any() for a in open_):
            return budget_used_up(ledger.budget, ledger.budget - ledger.committed)
        if not any(a.left.any() for a in open_):
            return "every item was administered"
        return MaxItems(turns.cap).why(standing)


def _what(o: Outcome) -> dict[str, object]:
    b = o.bank
    return {"task": b.task, "metric": b.metric, "filter": b.filter, "bank": b.short_hash}


def _description(score: WeightedSum, j: int) -> Description | None:
    """The method's description of a model, if the score is a single outcome's."""
    return score.outcomes[0].policy.describe(j) if len(score.outcomes) == 1 else None


def _estimate(belief: Belief, j: int, looks: Looks, about: Description | None) -> Estimate:
    """One model's estimated score, as a belief has it."""
    return Estimate(
        float(belief.location[j]),
        float(belief.variance[j, j] ** 0.5),
        float(belief.df[j, j]),
        float(belief.n[j, j]),
        belief.n_items,
        0.0 if belief.lean is None else float(belief.lean[j]),
        looks,
        about.interval if about else None,
    )
