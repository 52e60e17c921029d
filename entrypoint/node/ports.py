"""Whether a port can be listened on, found before the engine needs an hour to find out."""

import errno
import os
import socket
from collections.abc import Iterable
from typing import Final

import psutil

from entrypoint.findings import Finding, Severity
from entrypoint.outcome import ExitCode

_COMMAND_WORDS: Final = 4
_COMMAND_CHARACTERS: Final = 120
_LARGEST_PORT: Final = 65535
_PORT_REMEDY: Final = "Choose a port from 1024 to 65535"
_HOST_REMEDY: Final = "Give an address of this node, or 0.0.0.0 for all of them"


def port_finding(host: str, port: int, purpose: str, setting: str) -> Finding | None:
    """Return why a port cannot be listened on, or None when it can.

    The port is bound for a moment, with SO_REUSEADDR as servers do, so that connections of a server just ended
    (TIME_WAIT) are no obstacle. Another process can still take it before the server does.

    Args:
        host: Address or name to listen on.
        port: The port.
        purpose: What it is for, as the object of a sentence: "the engine".
        setting: Dotted name of the setting that chose it.
    """
    if not 0 < port <= _LARGEST_PORT:
        return _unusable(f"Port {port}, wanted for {purpose}, does not exist.", _PORT_REMEDY, setting)
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind, protocol) as candidate:
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            candidate.bind(address)
    except (OSError, UnicodeError) as error:
        return _finding(error, host, port, purpose, setting)
    return None


def taken_finding(host: str, port: int, purpose: str, setting: str) -> Finding:
    """Return that somebody listens on a port that a server wants.

    Args:
        host: Address or name to listen on.
        port: The port.
        purpose: What it is for, as the object of a sentence: "the engine".
        setting: Dotted name of the setting that chose it.
    """
    return Finding(
        "port-taken",
        Severity.ERROR,
        f"Port {port} on {host}, wanted for {purpose}, is taken by {_holder(port)}.",
        f"Stop that process, or set {setting} to a free port.",
        setting,
        ExitCode.NODE_UNFIT,
    )


def listens(pids: Iterable[int], port: int) -> bool | None:
    """Return whether one of some processes listens on a port; None where not all of them may be looked into."""
    unseen = False
    for pid in pids:
        try:
            connections = psutil.Process(pid).net_connections(kind="tcp")
        except psutil.NoSuchProcess:
            continue
        except (psutil.Error, OSError):
            unseen = True
            continue
        if any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in connections):
            return True
    return None if unseen else False


def _finding(error: Exception, host: str, port: int, purpose: str, setting: str) -> Finding:
    """Describe what stands against listening."""
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.EADDRINUSE:
        return taken_finding(host, port, purpose, setting)
    if number in (errno.EACCES, errno.EPERM):
        message, remedy = f"Port {port}, wanted for {purpose}, may not be used by user {os.getuid()}.", _PORT_REMEDY
    elif isinstance(error, (socket.gaierror, UnicodeError)):
        message = f"The address {host!r}, wanted for {purpose}, cannot be resolved ({_reason(error)})."
        remedy, setting = _HOST_REMEDY, _host_setting(setting)
    elif number == errno.EADDRNOTAVAIL:
        message, remedy = f"{host}, wanted for {purpose}, is no address of this node.", _HOST_REMEDY
        setting = _host_setting(setting)
    else:
        message = f"Port {port} on {host}, wanted for {purpose}, cannot be used: {_reason(error)}."
        remedy = _HOST_REMEDY
    return _unusable(message, remedy, setting)


def _unusable(message: str, remedy: str, setting: str) -> Finding:
    """Return the finding for a port that nobody could listen on here."""
    return Finding(
        "port-unusable", Severity.ERROR, message, f"{remedy}; {setting} is the setting.", setting, ExitCode.NODE_UNFIT
    )


def _host_setting(port_setting: str) -> str:
    """Return the setting of the address that belongs to a port."""
    return f"{port_setting.removesuffix('port')}host"


def _reason(error: Exception) -> str:
    """Return what the system says, without its number."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _holder(port: int) -> str:
    """Return who listens on a port, as far as this user may see it."""
    unseen = "a process that this user may not see"
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return unseen
    listening = (
        connection.pid
        for connection in connections
        if connection.pid is not None
        and connection.status == psutil.CONN_LISTEN
        and connection.laddr
        and connection.laddr.port == port
    )
    pid = next(listening, None)
    return unseen if pid is None else f"process {pid} ({_command(pid)})"


def _command(pid: int) -> str:
    """Return the beginning of a process's command, up to its first long option: what follows may be a secret."""
    try:
        process = psutil.Process(pid)
        words = process.cmdline() or [process.name()]
    except (psutil.Error, OSError):
        return "already gone"
    options = (place for place, word in enumerate(words) if place and word.startswith("--"))
    shown = " ".join(" ".join(words[: min(next(options, len(words)), _COMMAND_WORDS)]).split())
    return shown if len(shown) <= _COMMAND_CHARACTERS else f"{shown[:_COMMAND_CHARACTERS]}…"
