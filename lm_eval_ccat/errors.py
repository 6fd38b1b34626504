"""Exceptions of the package; their common root tells a user's mistake from a defect of ours."""

from __future__ import annotations


class CcatError(Exception):
    """An error that the user can fix; the message names the cause and the remedy.

    Examples
    --------
    >>> from lm_eval_ccat import CcatError, ItemBank
    >>> try:
    ...     ItemBank.load("missing.bank.json")
    ... except CcatError as error:
    ...     print(error)
    missing.bank.json: no such item bank; `lm-eval-ccat bank list` names those at hand, `calibrate`
    makes one
    """

    #: Exit code of a command that ends with this error.
    exit_code = 1


class UsageError(CcatError):
    """A command line, configuration or argument is invalid, or names what is not there."""

    exit_code = 2


class UnknownTaskError(UsageError):
    """A name that no task has."""


class MetricError(CcatError):
    """A metric that is unknown, or that does not give one score per document."""


class UnknownMetricError(MetricError, UsageError):
    """A metric that the task does not report, or not as one number per document."""


class ScaleError(MetricError, UsageError):
    """A scale or direction that is not known, contradictory or not that of the other side."""


class OutsideScaleError(ScaleError):
    """A raw score outside its metric's scale: what it is and, after it, the remedy if any."""

    exit_code = 1  # the scores are wrong, not what the user says of them

    def __str__(self) -> str:
        return "; ".join(map(str, self.args))


class ScoreTableError(CcatError):
    """A score table or harness log that cannot be read, or contradicts itself."""


class NoScoresFoundError(ScoreTableError):
    """A path at which no reader finds scores.

    Parameters
    ----------
    path : path-like
    remedy : str
        What is missing there, and what to do.
    readable : str
        What can be read, kind by kind.
    """

    def __init__(self, path: object, remedy: str, readable: str) -> None:
        super().__init__(path, remedy, readable)
        self.remedy = remedy

    def __str__(self) -> str:
        path, remedy, readable = self.args
        return f"{path}: {remedy} (what can be read: {readable})"


class UnknownScoresError(ScoreTableError, UsageError):
    """A task, metric, filter or model of which a score table or log has no scores."""


class BankError(CcatError):
    """An item bank that cannot be built, read or trusted."""


class NoBankError(BankError, UsageError):
    """A folder that was named as one of item banks holds none."""


class BankMismatchError(BankError, UsageError):
    """A bank calibrated on other documents or settings than those of the run."""


class PromptMismatchError(BankMismatchError):
    """A run of other prompts than those of its bank's models, or of models with known results.

    Parameters
    ----------
    difference : str
        One document and both hashes.
    remedy : str
        What commands can do that take other prompts; the others state their own.
    """

    def __init__(self, difference: str, remedy: str) -> None:
        super().__init__(difference, remedy)
        self.difference, self.remedy = difference, remedy

    def __str__(self) -> str:
        return f"{self.difference}. {self.remedy}"


class OtherScoringError(UsageError):
    """Two sides whose answers were asked for, cut off or scored in different ways.

    Parameters
    ----------
    difference, remedy : str
    change : str
        What accepts it, as `accept_change` takes it.
    """

    def __init__(self, difference: str, remedy: str, change: str) -> None:
        super().__init__(difference, remedy, change)
        self.difference, self.remedy, self.change = difference, remedy, change

    def __str__(self) -> str:
        return (
            f"{self.difference}. {self.remedy}, or accept it: --accept_change {self.change} (in "
            f"Python accept_change='{self.change}')"
        )


class HarnessError(CcatError):
    """A task, model or harness feature that an adaptive run cannot use."""


class JudgeError(HarnessError):
    """A judge that can be asked nothing; the answers that it has not rated are kept in the run."""

    exit_code = 4


class RunError(CcatError):
    """A run directory or journal that cannot be used, or a live run that cannot continue."""


class OtherSettingsError(RunError):
    """A run that cannot be resumed with other settings: which they are, and the remedy."""

    def __str__(self) -> str:
        return ". ".join(map(str, self.args))


class UnfinishedError(RunError):
    """A live comparison that a failing model or an interruption ended before its verdict."""

    exit_code = 4
