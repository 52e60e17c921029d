"""The engine over HTTP: its readiness, its load, its model and parsers.

Every question has a typed answer: what was asked for, or an `Unavailable` that says why there is none. Paths and
shapes are those of SGLang 0.5.23; ``/health`` stands in for ``/ready`` where an older engine has no ``/ready``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Self, TypeVar

import httpx
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

CONNECT_TIMEOUT_S = 3.0
"""A listening engine accepts at once, even while it computes: the kernel answers for it."""
READ_TIMEOUT_S = 10.0
HEALTH_TIMEOUT_S = 25.0
"""``/health`` generates a token and takes up to 20 s to say that it cannot."""
DETAIL_CHARACTERS = 300

T = TypeVar("T")


class Readiness(StrEnum):
    """What the engine's port says about it."""

    REFUSED = "refused"
    """Nothing listens: the engine still loads, or it is gone."""
    WARMING = "warming"
    """It listens and answers 503: it warms up, drains or is paused."""
    READY = "ready"
    """It takes requests."""
    UNREACHABLE = "unreachable"
    """No answer in time, a broken connection, or an answer that means neither."""


class Fault(StrEnum):
    """Why a question has no answer."""

    ABSENT = "absent"
    """The server answers, and has no such endpoint."""
    DENIED = "denied"
    """The server wants another key."""
    UNREACHABLE = "unreachable"
    """No connection, or no answer in time."""
    ERROR = "error"
    """The server answers with another error."""
    NONSENSE = "nonsense"
    """The answer is not what the endpoint is known to say."""


@dataclass(frozen=True, slots=True)
class Unavailable:
    """A question that was not answered.

    Attributes:
        fault: Which kind of failure.
        detail: One sentence with the path and what came instead.
    """

    fault: Fault
    detail: str


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """How busy the engine is, over all its data-parallel ranks.

    Counts and throughput are sums. ``token_usage`` is the share of the whole pool in use; ``cache_hit_rate`` is the
    plain mean over ranks, since the engine does not say how many prompt tokens each rank's rate stands for.

    The figures are those of the schedulers' last steps: the engine answers with them also while a step takes long, or
    never ends. ``snapshot_unix_s`` is the time of the oldest; an idle scheduler goes on telling that it is idle. None
    where the engine does not say (before 0.5.23).
    """

    running: int
    waiting: int
    used_tokens: int
    max_total_tokens: int
    token_usage: float
    gen_throughput: float
    cache_hit_rate: float
    snapshot_unix_s: float | None = None


class _RankLoad(BaseModel):
    num_running_reqs: int = Field(ge=0)
    num_waiting_reqs: int = Field(ge=0)
    num_used_tokens: int = Field(ge=0)
    max_total_num_tokens: int = Field(ge=0)
    gen_throughput: float = Field(ge=0)
    cache_hit_rate: float = Field(ge=0)
    timestamp: float | None = None


class _Loads(BaseModel):
    loads: list[_RankLoad] = Field(min_length=1)


class _Model(BaseModel):
    id: str


class _Models(BaseModel):
    data: list[_Model]


_MAPPING: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


class EngineClient:
    """Asks a running engine questions; one per engine, closed with `aclose` or ``async with``.

    Args:
        http: Client whose base URL is the engine's; `open_http` makes one.
    """

    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    @classmethod
    def open(cls, base_url: str, *, api_key: str | None = None) -> Self:
        """Return a client of the engine at this URL, without a trailing ``/v1``."""
        return cls(open_http(base_url, api_key=api_key))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self.http.aclose()

    async def ready(self) -> Readiness:
        """Return what the engine says about itself, at the price of a flag's reading.

        An engine without ``/ready`` is asked at ``/health``, which generates a token and takes a second or more.
        """
        try:
            response = await self.http.get("/ready")
            if response.status_code == HTTPStatus.NOT_FOUND:
                response = await self.http.get("/health", timeout=HEALTH_TIMEOUT_S)
        except httpx.ConnectError:
            return Readiness.REFUSED
        except httpx.HTTPError:
            return Readiness.UNREACHABLE
        if response.status_code == HTTPStatus.OK:
            return Readiness.READY
        if response.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
            return Readiness.WARMING
        return Readiness.UNREACHABLE

    async def load(self) -> EngineLoad | Unavailable:
        """Return how busy the engine is."""
        return await self._ask("/v1/loads?include=core&format=json", _load_of)

    async def model_info(self) -> Mapping[str, Any] | Unavailable:
        """Return what the engine says about its model and parsers, as it says it."""
        return await self._ask("/model_info", _MAPPING.validate_json)

    async def models(self) -> tuple[str, ...] | Unavailable:
        """Return the names that requests may use, the base model first."""
        return await self._ask("/v1/models", _names_of)

    async def _ask(self, path: str, read: Callable[[bytes], T]) -> T | Unavailable:
        try:
            response = await self.http.get(path)
        except httpx.HTTPError as error:
            return Unavailable(Fault.UNREACHABLE, f"GET {path} failed: {describe(error)}.")
        fault = _fault_of(response.status_code)
        if fault is not None:
            return Unavailable(fault, f"GET {path} answered {response.status_code}: {_excerpt(response)}")
        try:
            return read(response.content)
        except ValidationError as error:
            reason = error.errors(include_url=False)[0]["msg"]
            return Unavailable(
                Fault.NONSENSE, f"GET {path} answered what it should not ({reason}): {_excerpt(response)}"
            )


def open_http(base_url: str, *, api_key: str | None = None) -> httpx.AsyncClient:
    """Return an HTTP client for a server at this URL.

    Proxies of the environment are not used: compute nodes often have ``http_proxy`` set, and a proxy knows neither
    loopback nor the cluster's own network.
    """
    return httpx.AsyncClient(
        base_url=base_url,
        headers={"Authorization": f"Bearer {api_key}"} if api_key else {},
        timeout=httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        trust_env=False,
        # Reading the certificates takes 20 ms and a megabyte, and an engine on this machine needs none.
        verify=not base_url.startswith("http://"),
    )


def describe(error: httpx.HTTPError) -> str:
    """Return what went wrong with a connection, also where the library's own message is empty."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _fault_of(status: int) -> Fault | None:
    if status == HTTPStatus.OK:
        return None
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
        return Fault.ABSENT
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return Fault.DENIED
    return Fault.ERROR


def _excerpt(response: httpx.Response) -> str:
    return response.text[:DETAIL_CHARACTERS] or "(an empty body)"


def _names_of(body: bytes) -> tuple[str, ...]:
    return tuple(model.id for model in _Models.model_validate_json(body).data)


def _load_of(body: bytes) -> EngineLoad:
    ranks = _Loads.model_validate_json(body).loads
    used_tokens = sum(rank.num_used_tokens for rank in ranks)
    max_total_tokens = sum(rank.max_total_num_tokens for rank in ranks)
    times = [rank.timestamp for rank in ranks if rank.timestamp is not None]
    return EngineLoad(
        running=sum(rank.num_running_reqs for rank in ranks),
        waiting=sum(rank.num_waiting_reqs for rank in ranks),
        used_tokens=used_tokens,
        max_total_tokens=max_total_tokens,
        token_usage=used_tokens / max_total_tokens if max_total_tokens else 0.0,
        gen_throughput=sum(rank.gen_throughput for rank in ranks),
        cache_hit_rate=sum(rank.cache_hit_rate for rank in ranks) / len(ranks),
        snapshot_unix_s=min(times, default=None),
    )
