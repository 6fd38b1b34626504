"""`KeptAnswers`: the answers of a run, read from its journal when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from ..journal import Journal
from ..records import Answered, Item

#: Model and item.
Pair = tuple[str, Item]


class AnswersOfModel(Mapping[Item, Answered]):
    """One model's answers by item; see `KeptAnswers`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.places: dict[Item, int] = {}

    def __getitem__(self, item: Item) -> Answered:
        return cast(Answered, self._journal.record_at(self.places[item]))

    def __contains__(self, item: object) -> bool:
        return item in self.places  # without reading it

    def __iter__(self) -> Iterator[Item]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


class KeptAnswers(Mapping[Pair, Answered]):
    """Answers by model and item, of which only the places in the journal are in memory.

    Parameters
    ----------
    journal : Journal

    Examples
    --------
    >>> from lm_eval_ccat.records import Tell
    >>> journal = Journal()
    >>> answers = KeptAnswers(journal)
    >>> answer = Tell(model="a", item=("t", 0), score=1.0, responses=["yes"])
    >>> [place] = journal.append([answer])
    >>> answers.keep("a", ("t", 0), place)
    >>> answers["a", ("t", 0)].responses, list(answers.of("a"))
    (['yes'], [('t', 0)])
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._of_model: dict[str, AnswersOfModel] = {}

    def keep(self, model: str, item: Item, place: int) -> None:
        """Note where the journal has an answer."""
        self.of(model).places[item] = place

    def of(self, model: str) -> AnswersOfModel:
        """Return one model's answers by item, to which further ones are added."""
        if model not in self._of_model:
            self._of_model[model] = AnswersOfModel(self._journal)
        return self._of_model[model]

    def __getitem__(self, pair: Pair) -> Answered:
        return self._of_model[pair[0]][pair[1]]

    def __contains__(self, pair: object) -> bool:
        model, item = cast(Pair, pair)
        return model in self._of_model and item in self._of_model[model]

    def __iter__(self) -> Iterator[Pair]:
        return ((model, item) for model, answers in self._of_model.items() for item in answers)

    def __len__(self) -> int:
        return sum(map(len, self._of_model.values()))
