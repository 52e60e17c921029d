"""Secrets: the keys and tokens of a run, from settings, files or the environment.

No message of this module shows what a file or a setting holds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from entrypoint.outcome import ExitCode, SuperviseError
from entrypoint.settings.schema import Settings

TOKEN_VARIABLE = "HF_TOKEN"  # noqa: S105 - the name of a variable, no token
"""The environment variable that Hugging Face's own tools read the token from."""

LARGEST_BYTES = 64 << 10
"""A larger file is no key."""


@dataclass(frozen=True, slots=True)
class Secrets:
    """What must never be shown, as far as the user gave it.

    Attributes:
        api_key: The key that clients of the engine must send.
        admin_api_key: The key for the engine's administrative calls.
        hf_token: The token for the Hugging Face hub.
    """

    api_key: SecretStr | None
    admin_api_key: SecretStr | None
    hf_token: SecretStr | None

    def values(self) -> tuple[str, ...]:
        """Return the secrets in the clear, for whoever masks them."""
        given = (self.api_key, self.admin_api_key, self.hf_token)
        return tuple(secret.get_secret_value() for secret in given if secret is not None)


def read_secrets(settings: Settings, environ: Mapping[str, str]) -> Secrets:
    """Collect the secrets that the user gave.

    Raises:
        SuperviseError: A key is given twice, a file cannot be read or does not hold one key on one line.
    """
    engine = settings.engine
    return Secrets(
        api_key=_key("engine.api_key", engine.api_key, engine.api_key_file),
        admin_api_key=_key("engine.admin_api_key", engine.admin_api_key, engine.admin_api_key_file),
        hf_token=_token(settings.model.hf_token_file, environ),
    )


def _key(name: str, value: SecretStr | None, file: Path | None) -> SecretStr | None:
    if value is not None and file is not None:
        raise _unusable(
            f"{name} and {name}_file are both set",
            remedy=f'Set one of them only; {name}_file = "" unsets the file of a weaker layer.',
        )
    if file is not None:
        return _from_file(f"{name}_file", file)
    return None if value is None else _checked(name, value.get_secret_value())


def _token(file: Path | None, environ: Mapping[str, str]) -> SecretStr | None:
    if file is not None:
        return _from_file("model.hf_token_file", file)
    token = environ.get(TOKEN_VARIABLE)
    return _checked(TOKEN_VARIABLE, token) if token else None


def _from_file(name: str, path: Path) -> SecretStr:
    where = f"{name}: {str(path)!r}"
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_BYTES + 1)
    except FileNotFoundError:
        raise _unusable(f"{where} does not exist", remedy="Create the file, or correct its path.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise _unusable(
            f"{where} cannot be read: {reason}", remedy="Name a file that this user can read, mode 0600."
        ) from None
    text = content.decode("latin-1").removesuffix("\n").removesuffix("\r")
    if not text:
        raise _unusable(f"{where} is empty", remedy="Write the key into it, on one line.")
    if "\n" in text or len(content) > LARGEST_BYTES:
        raise _unusable(f"{where} holds more than one line", remedy="Leave the key alone in the file, on one line.")
    return _checked(where, text)


def _checked(where: str, text: str) -> SecretStr:
    """Return a secret that fits into an HTTP header, where all of them go."""
    if not text.isascii() or not text.isprintable() or " " in text:
        raise _unusable(
            f"{where} holds blanks, control characters or characters beyond ASCII, which no key has",
            remedy="Write the key as it was issued, without anything around it.",
        )
    return SecretStr(text)


def _unusable(message: str, *, remedy: str) -> SuperviseError:
    return SuperviseError(message, remedy=remedy, code=ExitCode.CONFIGURATION)
