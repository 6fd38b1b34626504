"""`KeptAnswers`: the answers of a run, read from its journal when they are asked for."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import cast

from ..journal import Journal
from ..records import Answered, Item

#: Model and item.
ModelItem = tuple[str, Item]


class AnswersOfModel(Mapping[Item, Answered]):
    """One model's answers by item; see `KeptAnswers`.

    `numbers` holds the number of each item. All models share it and add to it, so that an answer
    takes 16 bytes, where an entry of a dictionary takes 70.
    """

    def __init__(self, journal: Journal, numbers: dict[Item, int]) -> None:
        self._journal, self._numbers = journal, numbers
        self._positions = array("q")  # by the number of the item; -1 without an answer
        self._order = array("q")  # numbers of the items that have an answer, the first one first

    def keep(self, item: Item, position: int) -> None:
        """Note where the journal has the answer to an item."""
        number = self._numbers.setdefault(item, len(self._numbers))
        self._positions.extend([-1] * (number + 1 - len(self._positions)))
        if self._positions[number] < 0:
            self._order.append(number)
        self._positions[number] = position

    def _position(self, item: object) -> int:
        """Return where the journal has an answer; -1 if there is none."""
        number = self._numbers.get(cast(Item, item), len(self._positions))
        return self._positions[number] if number < len(self._positions) else -1

    def __getitem__(self, item: Item) -> Answered:
        if (position := self._position(item)) < 0:
            raise KeyError(item)
        return cast(Answered, self._journal.record_at(position))

    def __contains__(self, item: object) -> bool:
        return self._position(item) >= 0  # without reading it

    def __iter__(self) -> Iterator[Item]:
        items = list(self._numbers)
        return (items[number] for number in self._order)

    def __len__(self) -> int:
        return len(self._order)


class KeptAnswers(Mapping[ModelItem, Answered]):
    """Answers by model and item, of which only the positions in the journal are in memory.

    Parameters
    ----------
    journal : Journal

    Examples
    --------
    >>> from lm_eval_ccat.records import Item, Tell
    >>> journal = Journal()
    >>> answers = KeptAnswers(journal)
    >>> answer = Tell(model="a", item=Item(("t", 0)), score=1.0, responses=["yes"])
    >>> [position] = journal.append([answer])
    >>> answers.keep("a", answer.item, position)
    >>> answers["a", answer.item].responses, list(answers.of("a"))
    (['yes'], [('t', 0)])
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._numbers: dict[Item, int] = {}
        self._of_model: dict[str, AnswersOfModel] = {}

    def keep(self, model: str, item: Item, position: int) -> None:
        """Note where the journal has an answer."""
        self.of(model).keep(item, position)

    def of(self, model: str) -> AnswersOfModel:
        """Return one model's answers by item, to which further ones are added."""
        if model not in self._of_model:
            self._of_model[model] = AnswersOfModel(self._journal, self._numbers)
        return self._of_model[model]

    def __getitem__(self, pair: ModelItem) -> Answered:
        model, item = pair
        return self._of_model[model][item]

    def __contains__(self, pair: object) -> bool:
        model, item = cast(ModelItem, pair)
        return model in self._of_model and item in self._of_model[model]

    def __iter__(self) -> Iterator[ModelItem]:
        return ((model, item) for model, answers in self._of_model.items() for item in answers)

    def __len__(self) -> int:
        return sum(map(len, self._of_model.values()))
