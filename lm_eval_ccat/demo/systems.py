"""The demo's documents and its systems without weights.

A document is the body of a docstring of Python's standard library; its reference is the first line,
the author's own summary. The systems behind ``--model ccat-demo`` turn a body into one line. They
differ as real systems do: the good ones share what makes a sentence a summary, the poor ones miss
it in different ways.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..errors import HarnessError
from ..files import replace_text, writing
from ..harness.internals.bases import LM
from ..metrics.text_pairs import rouge
from . import DEMO_TYPE, N_DOCUMENTS

#: What `benchmarks/docstrings.py` wrote: the same documents for everybody, whatever their Python.
DOCUMENTS_FILE = "documents.jsonl.gz"


@dataclass(frozen=True)
class Document:
    """One docstring: the documented ``name``, the ``body``, and the first line as ``summary``."""

    name: str
    body: str
    summary: str


def stored_documents(limit: int = N_DOCUMENTS) -> list[Document]:
    """Return documents of the package, spread evenly over all of them.

    Parameters
    ----------
    limit : int
        Number of documents, at most `MAX_DOCUMENTS`.

    Returns
    -------
    list of Document
        No two with the same body or the same summary.

    Examples
    --------
    >>> [document] = stored_documents(1)
    >>> document.summary
    'Record of phased-in incompatible language changes.'
    """
    packed = (files(__package__) / DOCUMENTS_FILE).read_bytes()
    documents = [Document(**json.loads(line)) for line in gzip.decompress(packed).splitlines()]
    step = len(documents) / limit
    return [documents[int(i * step)] for i in range(limit)]


#: The task as a user would write it; only the paths are filled in.
TASK = """\
task: ccat_demo
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
  cache_dir: {cache}
test_split: test
output_type: generate_until
doc_to_text: "{{{{name}}}}\\n{{{{body}}}}\\n\\nIn one line:"
doc_to_target: summary
process_results: !function lm_eval_ccat.demo.systems.process_results
generation_kwargs:
  until: ["\\n"]
  max_gen_toks: 64
metric_list:
  - metric: rougeL
    aggregation: mean
    higher_is_better: true
num_fewshot: 0
metadata:
  version: 1.0
"""


def process_results(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """The harness's hook: ROUGE-L of one answer against the docstring's first line, on [0, 1]."""
    return rouge(results[0], doc["summary"])


def write_task(folder: Path, documents: list[Document]) -> None:
    """Write the documents and the task's YAML.

    Raises
    ------
    RunError
        They cannot be written.
    """
    data = folder / "ccat_demo.jsonl"
    lines = (json.dumps(asdict(document), ensure_ascii=False) + "\n" for document in documents)
    data_path, cache = (json.dumps(str(path.resolve())) for path in (data, folder / "cache"))
    with writing(data):
        replace_text(data, "".join(lines))
        replace_text(folder / "ccat_demo.yaml", TASK.format(data=data_path, cache=cache))


# -- systems --------------------------------------------------------------------------------------

#: A function from the documented name and the body of its docstring to one line.
Summariser = Callable[[str, str], str]

STOP_WORDS = frozenset(
    "a an and are as at be by can for from has have if in is it its of on or s that the then there "
    "this to was were when which will with you your not no but do does may must should".split()
)


def sentences(text: str) -> list[str]:
    """Split running text into sentences; never empty for text that is not."""
    parts = [part.strip() for part in re.split(r"(?<=[.!?:])\s+", text)]
    return [part for part in parts if part] or [text]


def content_words(text: str) -> list[str]:
    """Lower-case words and numbers that carry meaning."""
    words = re.findall(r"[a-z0-9_]+", text.lower())
    return [word for word in words if word not in STOP_WORDS and len(word) > 2]


def cut(text: str, count: int) -> str:
    """The first ``count`` words."""
    return " ".join(text.split()[:count])


def lead(count: int) -> Callable[[str], str]:
    """The first words of the document."""
    return lambda body: cut(body, count)


def sentence(number: int) -> Callable[[str], str]:
    """The sentence at a place, whole; -1 is the last."""
    return lambda body: sentences(body)[number]


first_sentence = sentence(0)


def any_sentence(body: str) -> str:
    """A sentence drawn by the document's own hash, so always the same."""
    choices = sentences(body)
    number = int.from_bytes(hashlib.sha256(body.encode("utf-8", "replace")).digest()[:4], "big")
    return choices[number % len(choices)]


def frequent(body: str) -> str:
    """SumBasic: the sentence whose words are most frequent in the document, cut to 14 words."""
    counts = Counter(content_words(body))
    weights = {word: count / counts.total() for word, count in counts.items()}

    def score(text: str) -> float:
        bag = content_words(text)
        return sum(weights[word] for word in bag) / len(bag) if bag else 0.0

    return cut(max(sentences(body), key=score), 14)


def central(body: str) -> str:
    """A small TextRank: the sentence most like the others, early ones first, cut to 14 words.

    Sentence i (from 0) scores the sum of its overlaps with the others over 1 + i/4.
    """
    choices = sentences(body)
    bags = [set(content_words(sentence)) for sentence in choices]
    scores = [
        sum(_overlap(bag, other_bag) for j, other_bag in enumerate(bags) if j != i) / (1 + 0.25 * i)
        for i, bag in enumerate(bags)
    ]
    return cut(choices[scores.index(max(scores))], 14)


def _overlap(a: set[str], b: set[str]) -> float:
    """TextRank's likeness of two sentences: words in common, over the logs of their numbers."""
    # One is added to each number, as the log of 1 is 0.
    return len(a & b) / (math.log(len(a) + 1) + math.log(len(b) + 1)) if a and b else 0.0


def verb_first(body: str) -> str:
    """The first sentence that begins like a description: "Return ...", "Create ..."."""
    pattern = r"^(returns?|creates?|calls?|sets?|gets?|reads?|writes?|checks?|this|the|an?)\b"
    for sentence in sentences(body):
        if re.match(pattern, sentence.lower()):
            return cut(sentence, 12)
    return cut(first_sentence(body), 12)


def keywords(count: int) -> Callable[[str], str]:
    """The most frequent content words, without grammar."""
    return lambda body: " ".join(
        word for word, _ in Counter(content_words(body)).most_common(count)
    )


def compressed(body: str) -> str:
    """The first sentence without its small words."""
    words = [
        word for word in first_sentence(body).split() if word.lower().strip(".,") not in STOP_WORDS
    ]
    return " ".join(words[:10])


def backwards(body: str) -> str:
    """The first words in reverse order: right words, wrong order."""
    return " ".join(reversed(cut(body, 11).split()))


def tail(count: int) -> Callable[[str], str]:
    """The last words of the document."""
    return lambda body: " ".join(body.split()[-count:])


def readable(name: str) -> str:
    """The last part of a dotted name as words: ``get_sourceLines`` is "get source lines"."""
    last = name.rsplit(".", 1)[-1]
    return " ".join(word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", last))


def _of_body(summarise: Callable[[str], str]) -> Summariser:
    """What ``summarise`` makes of the body; the name is left out."""
    return lambda name, body: summarise(body)


def _titled(prefix: str, summarise: Callable[[str], str]) -> Summariser:
    """The name in words, then what ``summarise`` makes of the body."""
    return lambda name, body: f"{prefix}{readable(name)} {summarise(body)}".strip()


SUMMARISERS: dict[str, Summariser] = {
    "titled-keywords": _titled("Return the ", lambda body: f"of a {keywords(3)(body)}"),
    "titled-for": _titled("Return the ", lambda body: f"for the {keywords(2)(body)}"),
    "titled": _titled("Return the ", lambda body: ""),
    "title-keywords": _titled("", keywords(5)),
    "title-lead": _titled("", lead(10)),
    "title-lead-5": _titled("", lead(5)),
    "title-first": _titled("", first_sentence),
    "title-central": _titled("", central),
    "lead-7": _of_body(lead(7)),
    "lead-11": _of_body(lead(11)),
    "lead-15": _of_body(lead(15)),
    "lead-25": _of_body(lead(25)),
    "first-sentence": _of_body(first_sentence),
    "last-sentence": _of_body(sentence(-1)),
    "random-sentence": _of_body(any_sentence),
    "frequent": _of_body(frequent),
    "verb-first": _of_body(verb_first),
    "keywords-8": _of_body(keywords(8)),
    "compressed": _of_body(compressed),
    "backwards": _of_body(backwards),
    "tail-11": _of_body(tail(11)),
    "tail-5": _of_body(tail(5)),
    "tail-3": _of_body(tail(3)),
}

#: Systems with known scores, and new systems. The known ones span the range of the new ones;
#: outliers among them would make items look informative that do not separate good systems.
CALIBRATING: Sequence[str] = (
    "titled-for", "titled", "title-keywords", "title-lead-5", "title-central", "title-first",
    "lead-7", "lead-15", "lead-25", "verb-first", "keywords-8", "first-sentence", "frequent",
    "random-sentence", "compressed", "last-sentence", "tail-11", "tail-5",
)  # fmt: skip
RANKED: Sequence[str] = ("lead-11", "tail-3", "titled-keywords", "backwards", "title-lead")


class DemoSystem(LM):  # type: ignore[misc]
    """One summariser behind the harness's model interface.

    Parameters
    ----------
    system : str
        One of `SUMMARISERS`.
    delay : float
        Seconds that each answer takes, to imitate a real model.

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
            raise HarnessError(f"{DEMO_TYPE} has no system {system!r}; it has: {known}")
        self.system = system
        self.delay = float(delay)
        self.batch_size = batch_size
        self._summarise = SUMMARISERS[system]

    @property
    def tokenizer_name(self) -> str:
        """Nothing is tokenised; the name only separates caches."""
        return DEMO_TYPE

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """One line per request; the prompt's last paragraph is the question."""
        answers = []
        for request in requests:
            if self.delay:
                time.sleep(self.delay)
            # The prompt as the demo's task writes it: name, body, question. A prompt of one line is
            # all body.
            text = request.args[0].rpartition("\n\n")[0] or request.args[0]
            name, newline, body = text.partition("\n")
            answer = self._summarise(name, body) if newline else self._summarise("", text)
            # The harness's cache of answers (--use_cache) takes each one as it comes.
            self.cache_hook.add_partial("generate_until", request.args, answer)
            answers.append(answer)
        return answers

    def loglikelihood(self, requests: list[Any]) -> list[tuple[float, bool]]:
        """Refused: a summariser gives no probabilities."""
        raise HarnessError(f"{DEMO_TYPE} only generates text; use a task of type generate_until")

    loglikelihood_rolling = loglikelihood
