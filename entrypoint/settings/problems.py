"""Problems: what is wrong with the settings, collected so that one start reports all of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from entrypoint.outcome import ExitCode, SuperviseError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong in one place.

    Attributes:
        where: The file with its line, the variable or the option.
        message: What is wrong there; never with a secret in it.
        remedy: One sentence that says what to do.
        excerpt: Lines of the file that show it.
    """

    where: str
    message: str
    remedy: str
    excerpt: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.where}: {self.message}", *(f"    {line}" for line in self.excerpt)])


def refusal(problems: Sequence[Problem]) -> SuperviseError:
    """Return the one error that reports all problems, a block for each."""
    if len(problems) == 1:
        (problem,) = problems
        return SuperviseError(str(problem), remedy=problem.remedy, code=ExitCode.CONFIGURATION)
    blocks = "\n\n".join(f"{problem}\n    {problem.remedy}" for problem in problems)
    return SuperviseError(
        f"The settings have {len(problems)} problems:\n\n{blocks}\n",
        remedy="Correct each of them and start again.",
        code=ExitCode.CONFIGURATION,
    )
