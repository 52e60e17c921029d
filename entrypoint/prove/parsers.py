"""The self-check: tool calls and thoughts arrive where clients look for them.

A server without the right parsers answers every request with status 200 and a wrong payload, so only asking shows it.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from entrypoint.prove.answer import Answer
from entrypoint.prove.assess import assess, tool_parser_fitting
from entrypoint.prove.exchange import Reply, post, read, refusal
from entrypoint.prove.probe import Probe, probes
from entrypoint.prove.transcript import (
    EVIDENCE_CHARACTERS,
    CheckResult,
    CheckSpec,
    ConfiguredParsers,
    Exchange,
    Failure,
    FailureKind,
    concealed,
    merged,
)


async def check(
    client: httpx.AsyncClient,
    spec: CheckSpec,
    configured: ConfiguredParsers | None,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> CheckResult:
    """Ask a server for tool calls and answers, streamed and not, and judge what comes.

    A refused or broken connection and any status but 200 end the check: the other requests would meet the same.

    Args:
        client: HTTP client whose base URL is the server's, without ``/v1``; it carries the key.
        spec: What is required.
        configured: The parsers that the server says it uses; None when it does not say.
        clock: Monotonic seconds.
    """
    started = clock()
    run = _Run(client, spec, configured, clock)
    try:
        async with asyncio.timeout(spec.timeout_s):
            await run.perform()
    except TimeoutError:
        run.failures.append(run.out_of_time())
    key = client.headers.get("Authorization", "").removeprefix("Bearer ")
    return CheckResult(concealed(merged(run.failures), key), tuple(run.exchanges), clock() - started)


@dataclass(slots=True)
class _Run:
    """One check under way."""

    client: httpx.AsyncClient
    spec: CheckSpec
    configured: ConfiguredParsers | None
    clock: Callable[[], float]
    exchanges: list[Exchange] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    asking: str = ""
    fitting_tool_parser: str | None = None

    async def perform(self) -> None:
        spec = self.spec
        for probe in probes(model=spec.model, tools=spec.tools, max_tokens=spec.max_tokens):
            self.asking = probe.name
            started = self.clock()
            reply = await post(self.client, probe)
            answer = read(probe, reply) if isinstance(reply, Reply) and reply.status == httpx.codes.OK else None
            self.exchanges.append(self.exchange(probe, reply, answer, self.clock() - started))
            if isinstance(answer, Answer):
                self.fitting_tool_parser = self.fitting_tool_parser or tool_parser_fitting(answer)
                self.failures += assess(probe, answer, spec, self.configured, self.fitting_tool_parser)
            elif isinstance(answer, Failure):
                self.failures.append(answer)
            else:
                self.failures.append(reply if isinstance(reply, Failure) else await refusal(self.client, probe, reply))
                return

    def exchange(
        self, probe: Probe, reply: Reply | Failure, answer: Answer | Failure | None, seconds: float
    ) -> Exchange:
        return Exchange(
            name=probe.name,
            request=probe.body,
            status=reply.status if isinstance(reply, Reply) else None,
            answer=answer.to_json(EVIDENCE_CHARACTERS) if isinstance(answer, Answer) else None,
            seconds=seconds,
        )

    def out_of_time(self) -> Failure:
        return Failure(
            FailureKind.TIMEOUT,
            f"The self-check was not done after {self.spec.timeout_s:g} s: the request {self.asking!r} was still "
            "waiting for its answer.",
            "See in the engine's log whether it generates at all; if it is only slow, raise prove.timeout_s or lower "
            "prove.max_tokens.",
            "",
            (self.asking,),
        )
