"""How SGLang 0.5.23 prints: lines with a time on standard error, and bars that redraw themselves."""

import os
import time

STDERR = 2


def say(text: str) -> None:
    """Print a text as it is, in one write."""
    os.write(STDERR, text.encode())


def log(message: str) -> None:
    """Print a message as SGLang's logger does."""
    say(time.strftime("[%Y-%m-%d %H:%M:%S] ") + message + "\n")


def loading_bar(done: int, total: int) -> None:
    """Redraw the bar of weight files."""
    rate = "88.92it/s" if done else "?it/s"
    left = "00:00" if done else "?"
    say(f"\rMulti-thread loading shards: {100 * done // total:3d}% Completed | {done}/{total} [00:00<{left}, {rate}]")


def capturing_bar(batch: int, done: int, total: int) -> None:
    """Redraw the bar of graphs."""
    rate = "10.52it/s" if done else "?it/s"
    left = "00:00" if done else "?"
    drawn = ("#" * (10 * done // total)).ljust(10)
    say(
        f"\rCapturing batches (bs={batch} avail_mem=21.70 GB): {100 * done // total:3d}%|{drawn}| {done}/{total} "
        f"[00:00<{left}, {rate}]"
    )
