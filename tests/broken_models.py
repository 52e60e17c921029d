"""Copies of a tiny model that are broken, each in one way, as checkpoints on a shared file system are."""

import json
import shutil
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Header = dict[str, Any]
Break = Callable[[Path], None]
"""Breaks the model in a directory."""

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
LENGTH = struct.Struct("<Q")
"""A safetensors file begins with the length of its header, which is JSON."""


def broken(model: Path, directory: Path, how: Break) -> Path:
    """Copy a model and break the copy; return it."""
    shutil.copytree(model, directory)
    how(directory)
    return directory


def saying(**entries: Any) -> Break:
    """Return what changes entries of the configuration."""

    def change(directory: Path) -> None:
        file = directory / "config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **entries}))

    return change


def without(name: str) -> Break:
    """Return what removes a file."""

    def remove(directory: Path) -> None:
        (directory / name).unlink()

    return remove


def cut_off(directory: Path) -> None:
    """Leave half of the weights' file, as a copy that was broken off does."""
    file = directory / WEIGHTS
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def garbled(directory: Path) -> None:
    """Overwrite a part of the header with what is no text."""
    file = directory / WEIGHTS
    content = bytearray(file.read_bytes())
    content[LENGTH.size : LENGTH.size + 32] = b"\xff" * 32
    file.write_bytes(content)


def lacking_a_shard(directory: Path) -> None:
    """Split the weights into two files, and lose the second."""
    content = (directory / WEIGHTS).read_bytes()
    (length,) = LENGTH.unpack_from(content)
    header: Header = json.loads(content[LENGTH.size : LENGTH.size + length])
    data = content[LENGTH.size + length :]
    names = sorted(name for name in header if name != "__metadata__")
    first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
    kept = names[: len(names) // 2]
    write_weights(directory / first, {name: header[name] for name in kept}, data)
    places = {name: first if name in kept else second for name in names}
    (directory / INDEX).write_text(json.dumps({"metadata": {"total_size": len(data)}, "weight_map": places}))
    (directory / WEIGHTS).unlink()


def write_weights(file: Path, tensors: Mapping[str, Header], data: bytes) -> None:
    """Write a safetensors file of some tensors of another one."""
    header: Header = {}
    body = b""
    for name, tensor in tensors.items():
        begin, end = tensor["data_offsets"]
        header[name] = {**tensor, "data_offsets": [len(body), len(body) + end - begin]}
        body += data[begin:end]
    text = json.dumps(header).encode()
    file.write_bytes(LENGTH.pack(len(text)) + text + body)
