"""Steps: what is built before the engine starts, as data."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import tomli
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.plan.model_kind import ModelKind

LARGEST_BYTES = 1 << 20
"""A larger file is a mistake."""
_CALL = r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"
_MODULE = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to build.

    Attributes:
        name: What people call it.
        call: A function under the engine's Python, as ``module:name``, that builds by doing; empty for a module.
        module: One of aiter's modules by its name; empty for a call.
    """

    name: str
    call: str = ""
    module: str = ""

    @classmethod
    def of_module(cls, module: str) -> "Step":
        """Return the step that builds one of aiter's modules."""
        return cls(name=module, module=module)


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, StringConstraints(min_length=1, max_length=80, strip_whitespace=True)]
    call: Annotated[str, StringConstraints(pattern=_CALL)] = ""
    module: Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*$")] = ""
    of: tuple[ModelKind, ...] = tuple(ModelKind)

    @model_validator(mode="after")
    def _one_thing(self) -> "_Row":
        if bool(self.call) == bool(self.module):
            raise ValueError("name either a call or a module")
        return self


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    step: Annotated[tuple[_Row, ...], Field(min_length=1)]


def packaged_steps(kinds: frozenset[ModelKind]) -> tuple[Step, ...]:
    """Return what SGLang needs of aiter for some kinds of model; all of it where none is known."""
    text = resources.files("entrypoint.warm.jit").joinpath("steps.toml").read_text(encoding="utf-8")
    return _steps(_File.model_validate(tomli.loads(text)), kinds)


def own_steps(path: Path, kinds: frozenset[ModelKind]) -> tuple[Step, ...]:
    """Return the steps of a user's file.

    Raises:
        SuperviseError: It cannot be read or understood.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise ValueError(f"it is larger than {LARGEST_BYTES >> 20} MiB")  # noqa: TRY301  # told like the others
        return _steps(_File.model_validate(tomli.loads(content.decode())), kinds)
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from error
    except ValidationError as error:
        raise _refused(path, _first(error)) from error
    except ValueError as error:  # no TOML, or no text
        raise _refused(path, str(error)) from error


def learned_steps(modules: Iterable[str]) -> tuple[Step, ...]:
    """Return the steps for modules that an engine built although its caches were said to be warm."""
    return tuple(Step.of_module(module) for module in sorted(set(modules)) if _MODULE.fullmatch(module))


def _steps(file: _File, kinds: frozenset[ModelKind]) -> tuple[Step, ...]:
    return tuple(Step(row.name, row.call, row.module) for row in file.step if not kinds or kinds & set(row.of))


def _first(error: ValidationError) -> str:
    """Return the first thing that is wrong, and where."""
    first: Any = error.errors()[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


def _refused(path: Path, reason: str) -> SuperviseError:
    return SuperviseError(
        f"The file of steps {path} cannot be used: {reason}.",
        remedy="Correct the file that warm.steps names; docs/caches.md says what a step holds.",
        code=ExitCode.CONFIGURATION,
    )
