"""The book of signatures: the packaged rows, and those that a user adds."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import tomli
from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError, field_validator

from entrypoint.cause import Cause
from entrypoint.engine.signature import Role, Signature
from entrypoint.outcome import ExitCode, SuperviseError

LARGEST_BYTES = 1 << 20
"""A larger file is a mistake, such as a log named in place of the rows."""
_REMEDY = "Correct the file; docs/signatures.md says what a row holds."
_Sentence = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


class _Row(BaseModel):
    """One row of a signature file, as it is written."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[str, StringConstraints(pattern=r"^[a-z0-9_]+(\.[a-z0-9_]+)+$")]
    pattern: str
    literals: tuple[str, ...]
    role: Role
    cause: Cause
    because: _Sentence
    remedy: str = ""
    source: str = ""
    versions: str = ""

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        try:
            compiled = re.compile(pattern)
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from error
        if compiled.match(""):
            raise ValueError("it matches an empty line, and so every line")
        return pattern

    @field_validator("literals")
    @classmethod
    def _can_be_found(cls, literals: tuple[str, ...]) -> tuple[str, ...]:
        if not literals:
            raise ValueError("at least one text is needed, of which every matching line holds at least one")
        for literal in literals:
            if len(literal) < _SHORTEST_LITERAL or "\n" in literal or "\r" in literal:
                raise ValueError(f"{literal!r} is shorter than {_SHORTEST_LITERAL} characters or spans lines")
        return literals


_SHORTEST_LITERAL = 4
"""Shorter ones stand in ordinary lines, each of which would be looked at."""


@cache
def packaged_signatures() -> tuple[Signature, ...]:
    """Return the packaged rows."""
    file = resources.files("entrypoint.engine").joinpath("signatures.toml")
    return _signatures(tomli.loads(file.read_text("utf-8")), "signatures.toml")


def read_signatures(path: Path) -> tuple[Signature, ...]:
    """Read a user's file of rows.

    Raises:
        SuperviseError: It cannot be read, or a row is wrong; names the file, the row and what is wrong with it.
    """
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise _error(f"{path}: the file is larger than 1 MiB")
        document = tomli.loads(content.decode().removeprefix("\ufeff"))
    except OSError as error:
        raise _error(f"{path}: the file cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _error(f"{path}: the file is not usable TOML: {error}") from error
    return _signatures(document, str(path))


def together(*books: Iterable[Signature]) -> tuple[Signature, ...]:
    """Return the rows of several books; a later row takes the place of an earlier one with the same id."""
    return tuple({signature.id: signature for book in books for signature in book}.values())


def signatures_with(paths: Sequence[Path]) -> tuple[Signature, ...]:
    """Return the packaged rows with a user's files laid over them, in their order.

    Raises:
        SuperviseError: A file cannot be read, or a row is wrong.
    """
    return together(packaged_signatures(), *map(read_signatures, paths))


def _signatures(document: dict[str, Any], where: str) -> tuple[Signature, ...]:
    unknown = [key for key in document if key != "signature"]
    if unknown:
        raise _error(f"{where}: {unknown[0]!r} is unknown; rows are written as [[signature]]")
    rows = document.get("signature", [])
    if not isinstance(rows, list):
        raise _error(f"{where}: rows are written as [[signature]], with two brackets")
    signatures: dict[str, Signature] = {}
    for number, row in enumerate(rows, 1):
        signature = _signature(row, f"{where}: row {number}{_named(row)}")
        if signature.id in signatures:
            raise _error(f"{where}: row {number} has the id {signature.id!r} of an earlier row of this file")
        signatures[signature.id] = signature
    return tuple(signatures.values())


def _named(row: Any) -> str:
    name = row.get("id") if isinstance(row, dict) else None
    return f" ({name})" if isinstance(name, str) else ""


def _signature(row: Any, where: str) -> Signature:
    try:
        valid = _Row.model_validate(row)
    except ValidationError as error:
        raise _error("; ".join(f"{where}: {_wrong(detail)}" for detail in error.errors())) from None
    return Signature(
        id=valid.id,
        pattern=re.compile(valid.pattern),
        literals=valid.literals,
        role=valid.role,
        cause=valid.cause,
        because=valid.because,
        remedy=valid.remedy,
        source=valid.source,
        versions=valid.versions,
    )


def _wrong(detail: Any) -> str:
    key = str(detail["loc"][0]) if detail["loc"] else "the row"
    match detail["type"]:
        case "extra_forbidden":
            near = get_close_matches(key, _Row.model_fields, n=1)
            return f"{key} is unknown{f'; did you mean {near[0]}?' if near else ''}"
        case "missing":
            return f"{key} is missing"
        case "value_error":
            return f"{key}: {detail['ctx']['error']}"
        case _:
            return f"{key}: {detail['msg'][0].lower()}{detail['msg'][1:]}"


def _error(message: str) -> SuperviseError:
    return SuperviseError(message, remedy=_REMEDY, code=ExitCode.CONFIGURATION)
