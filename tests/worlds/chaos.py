"""A ranking through a bad night: random faults and edits, and what must hold after each of them.

A sequence is a ranking of real outputs behind a loopback server, in several sessions. In each one
the server misbehaves, the process ends in some way of its own (a kill, a full disk, Ctrl-C, ...),
and before the next one the configuration is edited; the last session is calm. After every session
`Night` looks at the journal and at what the server saw.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any
from unittest import mock

from lm_eval_ccat import journal as journal_module
from lm_eval_ccat.errors import RunError
from lm_eval_ccat.journal import JournalFile
from lm_eval_ccat.live import ranking_run
from lm_eval_ccat.live.failures import PlaceLost
from lm_eval_ccat.live.models import Answer, HarnessModel, Model
from lm_eval_ccat.live.ranking_run import rank
from lm_eval_ccat.live.result import Observer, state
from lm_eval_ccat.records import Fail, Lost, Tell
from lm_eval_ccat.runs.directory import rebuild

from .server import CompletionsServer, untrusted_server
from .stages import Stage

#: Seconds in which a session ends, whatever happens to it; generous, for a busy machine.
LIMIT = 120.0
PRICES = (0.01, 0.02, 0.05)
#: Requests at once of each model, more than one needs.
MANY_SLOTS = 64
#: What the server does of what a provider would bill; an answer by itself is "".
BILLED = {"", "hang", "drip", "garbage", "cut", "swap", "truncate", "think"}
#: Those that a model can read.
ANSWERED = {"", "swap", "truncate", "think"}
#: Tokens of an answer that only the total counts, where a server counts so.
OUTSIDE = 7
#: Requests in a second, and at once, that a server lets through that limits their rate.
RATE, BURST = 40.0, 4.0
#: What a process that is killed has imported before it starts.
PRELOADED = [
    __name__, "lm_eval_ccat.live.models", "lm_eval_ccat.harness.evaluation", "lm_eval.evaluator",
    "lm_eval.models.openai_completions", "datasets", "aiohttp", "requests",
]  # fmt: skip
#: Those that go on until the session ends, once they have begun, and all.
LASTING = ("slow", "token bucket", "truncation", "swapped model", "tokens outside the count")
SERVER_FAULTS = (
    "outage", "long outage", "dropped connection", "rate limit", "rate limit with a date", "hang",
    "slow drip", "garbage", "server error", "refused document", "cut after generation",
    "capacity lost", *LASTING,
)  # fmt: skip
#: Those of a process of its own come first.
ENDINGS = ("kill", "hangup", "torn write", "full disk", "interrupt", "deadline", "none")
#: What edits bring about, in the session after.
BROUGHT_ABOUT = ("many slots", "certificate error")
ENDED_BY = {"kill": signal.SIGKILL, "hangup": signal.SIGHUP}
EDITS = (
    "concurrency", "timeout", "price", "budget", "added model", "url", "items", "turns", "scorer",
    "certificate",
)  # fmt: skip


@dataclass
class Weather:
    """Misbehaviour of the server, for one session.

    Each of `faults` strikes a model from one of its requests on, and `fired` counts it; `other`
    answers in place of a model that is swapped.
    """

    faults: Mapping[str, tuple[str, int]]
    fired: Counter[str]
    other: str
    lose_place: Callable[[str], bool] = lambda model: False
    seen: Counter[str] = field(default_factory=Counter)
    began: dict[str, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    tokens: float = BURST
    filled: float = field(default_factory=time.monotonic)

    def __call__(self, model: str, prompt: str, before: int) -> tuple[Any, ...] | None:
        with self.lock:
            self.seen[model] += 1
            for fault, (struck, first) in self.faults.items():
                n = self.seen[model] - first
                if model != struck or n < 0:
                    continue
                # The server answers; what asked it is gone.
                if fault == "capacity lost":
                    self.fired[fault] += n == 0 and self.lose_place(model)
                    continue
                mood = self._mood(fault, n)
                if mood is not None:
                    self.fired[fault] += 1
                    return mood
        return None

    def _mood(self, fault: str, n: int) -> tuple[Any, ...] | None:
        began = self.began.setdefault(fault, time.monotonic())
        lasts = {"outage": 0.3, "dropped connection": 0.2, "long outage": LIMIT}.get(fault)
        if lasts is not None:
            away = ("drop",) if fault == "dropped connection" else ("status", 503)
            return None if time.monotonic() - began > lasts else away
        if fault == "token bucket":
            now = time.monotonic()
            self.tokens = min(BURST, self.tokens + RATE * (now - self.filled))
            self.filled = now
            if self.tokens < 1.0:
                return ("say", 429, '{"error": "too many"}', {"retry-after-ms": "30"})
            self.tokens -= 1.0
            return None
        if n > 0 and fault not in LASTING:
            return None  # the others strike once
        at = formatdate(time.time() + 1.2, usegmt=True)
        return {
            "rate limit": ("say", 429, '{"error": "slow down"}', {"Retry-After": "0.3"}),
            "rate limit with a date": ("say", 429, '{"error": "later"}', {"Retry-After": at}),
            "hang": ("hang", 2.0),
            "slow drip": ("drip", 2.0),
            "garbage": ("garbage",),
            "server error": ("status", 500),
            "refused document": ("say", 400, '{"error": "too long"}'),
            "cut after generation": ("cut",),
            "slow": ("hang", 0.05),
            "truncation": ("truncate",),
            "swapped model": ("swap", self.other),
            "tokens outside the count": ("think", OUTSIDE),
        }[fault]


class Cluster:
    """A cluster that holds so many models, and fewer once it has lost a node, as Ray's engine is.

    The actors are models in this process, which are left when their node is lost.
    """

    def __init__(self, places: int) -> None:
        self.places = places
        self.placed: dict[str, PlacedModel] = {}

    def models(self, run: Any) -> list[PlacedModel]:
        """Return one for each model of a run."""
        shared = {"spec": run.plan.spec, "outcomes_by_task": run.plan.outcomes_by_task}
        models = [PlacedModel(self, {"entry": e, **shared}, run.warn_once) for e in run.asked]
        self.placed = {model.name: model for model in models}
        return models

    def lose_place(self, name: str) -> bool:
        """Lose the node that a model is on, for good."""
        self.places = max(1, self.places - 1)
        model = self.placed[name]
        lost, model.actor = model.actor is not None, None
        return lost


class PlacedModel(HarnessModel):
    """A model on a node of a `Cluster`."""

    def __init__(self, cluster: Cluster, arguments: Mapping[str, Any], warn: Any) -> None:
        super().__init__(**arguments, warn=warn)
        self.memory, self.bundle = None, {"CPU": 1.0}
        self.cluster, self.arguments, self.warn = cluster, arguments, warn
        self.actor: HarnessModel | None = None

    def fits_beside(self, others: Sequence[Model]) -> bool:
        return len(others) < self.cluster.places

    def ready(self) -> bool:
        if self.actor is None:
            self.actor = HarnessModel(**self.arguments, warn=self.warn)
            return False  # it begins to load
        return True

    def open(self) -> None:
        if (actor := self.actor) is None:
            raise PlaceLost(f"the node of {self.name} was lost")
        actor.open()
        self.slots, self.batch = actor.slots, actor.batch

    def ask(self, items: Sequence[Any]) -> list[Answer]:
        actor = self.actor
        answers = [] if actor is None else actor.ask(items)
        if actor is None or self.actor is not actor:
            raise PlaceLost(f"the node of {self.name} was lost")
        self.administered.update(
            (answer.item, actor.administered[answer.item]) for answer in answers
        )
        return answers

    def close(self) -> None:
        super().close()
        self.actor = None


class _PowerCut(BaseException):
    """The process is gone: no code of it runs any more."""


@contextmanager
def _failing_writes(after: int, fault: str) -> Iterator[None]:
    """From the record `after` on, the journal's writes break off in the middle.

    Records are counted and not writes, of which a busy machine makes fewer with more in each.
    """
    genuine, count = journal_module._write_all, [0]

    def write(stream: Any, data: bytes) -> None:
        before, count[0] = count[0], count[0] + data.count(b"\n")
        if count[0] < after:
            genuine(stream, data)
            return
        if before < after or fault == "full disk":
            genuine(stream, data[: len(data) // 2])
        if fault == "full disk":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        raise _PowerCut

    journal_module._write_all = write
    try:
        yield
    finally:
        journal_module._write_all = genuine


class _Quiet(Observer):
    """Says nothing; presses Ctrl-C after some answers where it is told so."""

    def __init__(self, after: int | None = None) -> None:
        self.after = after
        self.book: Any = None

    def warn(self, message: str) -> None:
        """Nothing."""

    def begin(self, plan: Any, book: Any) -> None:
        """Keep what tells how far it is."""
        self.book = book
        self.start = sum(book.tally.answered.values())

    def tick(self) -> None:
        """Press Ctrl-C when it is time."""
        if self.after is None:
            return
        if sum(self.book.tally.answered.values()) - self.start >= self.after:
            self.after = None
            raise KeyboardInterrupt


def _in_a_child(config: dict[str, Any], run_dir: str, resume: bool, retry: bool) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    rank(config, run_dir=run_dir, resume=resume, retry=retry, observer=_Quiet())
    os._exit(0)


@dataclass
class Night:
    """One sequence, drawn by its seed: `sessions` before the last, calm one.

    `kills` allows a process of its own to be killed, which takes a second or two to start. In the
    end `fired` counts faults, endings and edits, `troubles` says what did not hold, `pairs` and
    `wrong` count the pairs that were decided, and wrongly, and `longest` is the longest session.
    """

    stage: Stage
    folder: Path
    seed: int
    sessions: int = 3
    kills: bool = True
    fired: Counter[str] = field(default_factory=Counter)
    troubles: list[str] = field(default_factory=list)
    pairs: int = 0
    wrong: int = 0
    longest: float = 0.0

    def run(self) -> Night:
        """Play the sequence to its end."""
        self.rng = random.Random(self.seed)
        self.run_dir = self.folder / "night.run"
        names = sorted(self.stage.outputs)
        self.rng.shuffle(names)
        self.names, self.later = names[:3], names[3:]
        self.settings: dict[str, Any] = {
            "at_once": self.rng.randint(1, 5), "timeout": 1.2, "price": self.rng.choice(PRICES),
            "budget": {"usd": 2.0}, "items": self.rng.randint(20, 45), "host": "127.0.0.1",
            "ahead": None, "untrusted": "",  # the model whose certificate nobody trusts
        }  # fmt: skip
        self.bank = self.rng.choice(self.stage.banks)
        self._prompts = {item: prompt for prompt, item in self.stage.items.items()}
        self.billed = 0.0
        with (
            untrusted_server(self.folder) as self.untrusted,
            CompletionsServer(self.stage.outputs, latency=0.002) as self.server,
        ):
            for number in range(self.sessions):
                self._session(number, self._faults(), self._ending())
                self._edit()
            self.settings.update(budget=None, items=40, untrusted="")
            self._session(self.sessions, {}, "none")
            self._look_at_the_end()
        return self

    # -- one session -----------------------------------------------------------------------

    def _faults(self) -> dict[str, tuple[str, int]]:
        chosen = self.rng.sample(SERVER_FAULTS, self.rng.randint(1, 4))
        return {f: (self.rng.choice(self.names), self.rng.randint(1, 15)) for f in chosen}

    def _ending(self) -> str:
        return self.rng.choice(ENDINGS if self.kills else ENDINGS[len(ENDED_BY) :])

    def _config(self) -> dict[str, Any]:
        now = self.settings
        bank = {"metrics": [self.stage.metric]} if self.bank is None else {"bank": str(self.bank)}
        url = self.server.url.replace("127.0.0.1", now["host"])
        shared = {
            "tokenizer_backend": "none", "timeout": now["timeout"],
            "num_concurrent": now["at_once"],
        }  # fmt: skip
        urls = dict.fromkeys(self.names, url) | {now["untrusted"]: self.untrusted}
        entry = {"model": "local-completions", "price": {"item": now["price"]}}
        return {
            "task": self.stage.task, "max_items": now["items"], "warmup": 6,
            **bank, "budget": now["budget"], "ahead": now["ahead"],
            "harness": {"include_path": str(self.stage.folder)},
            "failures": {
                "attempts": 3, "backoff": 0.02, "max_backoff": 0.1, "outage_minutes": 0.03,
            },
            "models": [
                {**entry, "name": n, "model_args": {"model": n, "base_url": urls[n], **shared}}
                for n in self.names
            ],
        }  # fmt: skip

    def _session(self, number: int, faults: dict[str, tuple[str, int]], ending: str) -> None:
        before, price, means = len(self.server.log), self.settings["price"], self.stage.means
        weather = Weather(faults, self.fired, min(means, key=means.__getitem__))
        # An actor that is lost is one of a session in this process.
        self.cluster = None
        if "capacity lost" in faults and ending not in ENDED_BY:
            self.cluster = Cluster(self.rng.randint(1, len(self.names)))
            weather.lose_place = self.cluster.lose_place
        self.server.mood = weather
        resume = JournalFile(self.run_dir / "journal.jsonl").exists()
        aside = resume and bool(rebuild(self.run_dir).tally.set_aside)
        retry = aside and (number == self.sessions or self.rng.random() < 0.5)
        self.fired["taken up again"] += retry
        after = self.rng.randint(3, 60)
        held = dict(self.settings)
        if ending == "deadline":
            gone = rebuild(self.run_dir).tally.elapsed if resume else 0.0
            self.settings["budget"] = {"seconds": gone + 0.3 + self.rng.random()}
        started = time.monotonic()
        run = self._killed if ending in ENDED_BY else self._here
        run(resume, retry, ending, after)
        seconds = time.monotonic() - started
        self.settings = held
        self.longest = max(self.longest, seconds)
        where = f"session {number} ({ending}; {', '.join(faults) or 'calm'})"
        if seconds > LIMIT:
            self._trouble(where, f"took {seconds:.0f} s")
        self._settle()
        self.billed += price * sum(_is_billed(kind) for *_, kind in self.server.log[before:])
        self._look(where, ended=ending == "none")
        self.fired["many slots"] += held["at_once"] == MANY_SLOTS
        self.fired["certificate error"] += bool(held["untrusted"]) and self._was_distrusted()
        self.settings["untrusted"] = ""  # its owner has mended it

    def _here(self, resume: bool, retry: bool, ending: str, after: int) -> None:
        """A session in this process."""
        observer = _Quiet(after if ending == "interrupt" else None)
        fails = ending in ("torn write", "full disk")
        models = nullcontext()
        if self.cluster is not None:
            made = self.cluster.models
            models = mock.patch.object(ranking_run, "_ray_models_at", lambda address: made)
        try:
            with _failing_writes(after, ending) if fails else nullcontext(), models:
                result = rank(
                    self._config(), run_dir=self.run_dir, resume=resume, retry=retry,
                    observer=observer, executor="ray" if self.cluster else "local",
                )  # fmt: skip
            reason = result.content["stopped_because"] or ""
            self.fired["interrupt"] += result.content["interrupted"]
            self.fired["deadline"] += ending == "deadline" and "seconds is used up" in reason
        except _PowerCut:
            self.fired["torn write"] += 1
        except RunError as error:
            if ending != "full disk" or os.strerror(errno.ENOSPC) not in str(error):
                raise
            self.fired["full disk"] += 1

    def _killed(self, resume: bool, retry: bool, ending: str, after: int) -> None:
        """A session in its own process, which at some moment is killed or loses its terminal."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        arguments = (self._config(), str(self.run_dir), resume, retry)
        child = context.Process(target=_in_a_child, args=arguments, daemon=True)
        journal = self.run_dir / "journal.jsonl"
        size = journal.stat().st_size if journal.exists() else 0
        child.start()
        end = time.monotonic() + LIMIT / 2
        while child.is_alive() and time.monotonic() < end:
            if journal.exists() and journal.stat().st_size > size + 150 * after:
                break
            child.join(0.002)
        child.join(self.rng.random() * 0.05)
        if time.monotonic() >= end:
            self._trouble("a session to be killed", f"neither ended nor went on, after {after}")
        if child.is_alive():
            os.kill(child.pid or 0, ENDED_BY[ending])
            self.fired[ending] += 1
        child.join(LIMIT / 2)
        if child.is_alive():
            self._trouble(f"a session ended by {ending}", "goes on")
            child.kill()
            child.join()

    def _was_distrusted(self) -> bool:
        """Whether the model whose certificate nobody trusts was set aside for it."""
        if not JournalFile(self.run_dir / "journal.jsonl").exists():
            return False
        reason = rebuild(self.run_dir).tally.set_aside.get(self.settings["untrusted"], "")
        return "certificate" in reason

    def _settle(self) -> None:
        """Wait until the server is at rest: what hangs there may be billed all the same."""
        end = time.monotonic() + LIMIT / 2
        while any(self.server.at_once.values()) and time.monotonic() < end:
            time.sleep(0.01)

    # -- what changes ----------------------------------------------------------------------

    def _edit(self) -> None:
        rng, now = self.rng, self.settings
        for edit in rng.sample(EDITS, rng.randint(1, 3)):
            if edit == "added model" and not self.later:
                continue
            change: dict[str, Callable[[], Any]] = {
                "concurrency": lambda: now.update(at_once=rng.choice((1, 2, 4, MANY_SLOTS))),
                "timeout": lambda: now.update(timeout=rng.choice((1.0, 1.2, 1.5))),
                "price": lambda: now.update(price=rng.choice(PRICES)),
                "budget": lambda: now.update(budget=rng.choice((None, {"usd": 3.0}))),
                "added model": lambda: self.names.append(self.later.pop()),
                "url": lambda: now.update(host=rng.choice(("localhost", "127.0.0.1"))),
                "certificate": lambda: now.update(untrusted=rng.choice(self.names)),
                "items": lambda: now.update(items=rng.randint(30, 45)),
                "scorer": self._edit_scorer,
                "turns": lambda: now.update(ahead=rng.choice((None, 1, 4))),
            }
            was = (dict(now), len(self.names))
            change[edit]()
            self.fired[f"edit: {edit}"] += was != (now, len(self.names))

    def _edit_scorer(self) -> None:
        """Answers that one code has scored are not mixed with those of another in silence."""
        if not JournalFile(self.run_dir / "journal.jsonl").exists():
            return
        file = self.stage.folder / "scoring.py"
        genuine = file.read_text()
        file.write_text(genuine + "\n\nEDITED = True\n")
        try:
            rank(self._config(), run_dir=self.run_dir, resume=True, observer=_Quiet())
        except RunError as error:
            self.fired["edit: scorer"] += 1
            if "scoring" not in str(error):
                self._trouble("an edit of the scorer", f"was refused as {error}")
        else:
            self._trouble("an edit of the scorer", "was mixed in")
        finally:
            file.write_text(genuine)

    # -- what must hold --------------------------------------------------------------------

    def _trouble(self, where: str, what: str) -> None:
        self.troubles.append(f"seed {self.seed}, {where}: {what}")

    def _look(self, where: str, ended: bool) -> None:
        if not JournalFile(self.run_dir / "journal.jsonl").exists():
            return
        records = list(JournalFile(self.run_dir / "journal.jsonl").read_new())
        content = state(self.run_dir).content
        done: dict[tuple[str, int], float] = {}
        for record in records:
            if not isinstance(record, Tell | Fail):
                continue
            pair = record.model, record.item[1]
            if pair in done:
                self._trouble(where, f"{pair} is recorded twice")
            done[pair] = record.time
            true = [self.stage.score(pair[1], text) for _, text, _ in self._said(*pair)]
            if isinstance(record, Tell) and all(abs(record.raw - x) > 1e-6 for x in true):
                self._trouble(where, f"{pair} was given {record.raw}, its score is {true}")
        previous: dict[str, str] = {}
        for arrived, model, prompt, kind in self.server.log:
            item = self.stage.items[prompt]
            late = arrived > done.get((model, item), float("inf")) + 0.002
            # Where all that is open has failed, what was answered last probes the server.
            if late and previous.get(model) in ANSWERED:
                self._trouble(where, f"{(model, item)} was asked after it was recorded")
            previous[model] = kind
        self._look_at_the_money(where, ended, records, content, done)
        self._look_at_the_servers(where, content)

    def _kinds(self, model: str, item: int) -> list[bool]:
        """Whether the answers to an item had tokens outside the count."""
        asked = (model, self._prompts[item])
        answers = [kind for _, *pair, kind in self.server.log if tuple(pair) == asked]
        return [kind.startswith("think") for kind in answers if _is_billed(kind)]

    def _said(self, model: str, item: int) -> list[tuple[str, str, bool]]:
        return self.server.said.get((model, self._prompts[item]), [])

    def _look_at_the_money(
        self, where: str, ended: bool, records: list[Any], content: Any, done: Mapping[Any, float]
    ) -> None:
        money = content["money"] or dict.fromkeys(("billed", "assumed", "unknown"), 0.0)
        # What was under way at a kill is noted when the run is taken up again, at what it was
        # expected to cost, which prices that were edited blur.
        attempts = [record for record in records if isinstance(record, Lost)]
        cut = Counter(attempt.model for attempt in attempts if attempt.why == "killed")
        if not ended:
            cut.update(one["model"] for one in content["in_flight"])
        doubt = max(PRICES) * cut.total()
        if not money["billed"] - 1e-9 <= self.billed <= sum(money.values()) + doubt + 1e-9:
            said = f"the server counts ${self.billed:.4f}, the run {money} (+ ${doubt:.4f})"
            self._trouble(where, said)
        lost = Counter((attempt.model, attempt.item[1]) for attempt in attempts)
        asked = Counter(
            (model, self.stage.items[prompt])
            for _, model, prompt, kind in self.server.log
            if _is_billed(kind)
        )
        for pair, n in asked.items():
            # What the disk refused, or a power cut took, is nowhere: a batch at most.
            gone = self.fired["full disk"] + self.fired["torn write"]
            if n > (pair in done) + lost[pair] + cut[pair[0]] + gone:
                self._trouble(where, f"{pair} was billed {n} times: {lost[pair]} are written down")

    def _look_at_the_servers(self, where: str, content: Any) -> None:
        """A change of who answers, and answers that are cut unlike often, are told and bar."""
        warned = " ".join(content["warnings"])
        told = {
            name: [said[0] for item in block["items"] if len(said := self._said(name, item)) == 1]
            for name, block in content["models"].items()
        }
        by = {name: {who for who, *_ in of} for name, of in told.items()}
        cut = {name: sum(short for *_, short in of) / max(len(of), 1) for name, of in told.items()}
        tally = rebuild(self.run_dir).tally
        for name, block in content["models"].items():
            kinds = [self._kinds(name, item) for item in block["items"]]
            least, most = (OUTSIDE * sum(map(every, kinds)) for every in (all, any))
            outside = tally.outside[name]
            if not least <= outside <= most:
                counts = f"{outside} tokens outside the count, and not {least} to {most}"
                self._trouble(where, f"{name} has {counts}")
            if outside and f"the server of {name} counts {outside:,} tokens in" not in warned:
                self._trouble(where, f"{name} has {outside} tokens outside the count, in silence")
        for name, identities in by.items():
            if len(identities) > 1 and f"the server of {name} changed" not in warned:
                self._trouble(where, f"{name} was answered by {identities}, and nobody says so")
        for pair in content["pairwise"]:
            a, b = pair["a"], pair["b"]
            unlike = min(len(told[a]), len(told[b])) >= 15 and abs(cut[a] - cut[b]) > 0.5
            if unlike and "cut at the token limit" not in warned:
                self._trouble(where, f"{cut[a]:.0%} of {a}, {cut[b]:.0%} of {b} cut, in silence")
            if pair["decision"] == "open":
                continue
            if unlike or max(len(by[a]), len(by[b])) > 1:
                self._trouble(where, f"{a} and {b} are {pair['decision']}: {by[a]}, {by[b]}, {cut}")

    def _look_at_the_end(self) -> None:
        content = state(self.run_dir).content
        if not content["finished"] or content["in_flight"]:
            self._trouble("the end", f"not finished: {content['stopped_because']}")
        aside = [name for name, block in content["models"].items() if block["set_aside"]]
        if aside or len(content["models"]) != len(self.names):
            self._trouble("the end", f"models are missing: {aside}")
        for pair in content["pairwise"]:
            if pair["decision"] != "decided" or self._is_another(content, pair):
                continue
            a, b = (self.stage.means[pair[side]] for side in "ab")
            self.pairs += 1
            self.wrong += (a > b) != (pair["p"] > 0.5)

    def _is_another(self, content: Any, pair: Mapping[str, Any]) -> bool:
        """Whether what answered in the end is not what the stage knows the score of."""
        for name in (pair["a"], pair["b"]):
            said = [self._said(name, i)[0] for i in content["models"][name]["items"]]
            if sum(short or who != name for who, _, short in said) > 0.1 * len(said):
                return True
        return False


def _is_billed(kind: str) -> bool:
    return kind == "status 500" or kind.partition(" ")[0] in BILLED
