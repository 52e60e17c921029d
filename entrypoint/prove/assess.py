"""What is wrong with an answer: pure judgement, no network."""

from collections.abc import Iterator
from dataclasses import dataclass

from entrypoint.prove.answer import Answer, ToolCall
from entrypoint.prove.probe import TOOL_NAME, Probe, arguments_problem
from entrypoint.prove.remedies import REASONING, TOOL_CALL, ParserInUse
from entrypoint.prove.syntax import (
    REASONING_PARTNERS,
    SHARED_MARKER_PARSERS,
    THOUGHT_SYNTAXES,
    TOOL_CALL_SYNTAXES,
    holds_unknown_call,
    recognise,
)
from entrypoint.prove.transcript import (
    EVIDENCE_CHARACTERS,
    CheckSpec,
    ConfiguredParsers,
    Failure,
    FailureKind,
)

CLOSING_TOKENS = 4
"""Tokens of an answer that leave no text: the end of the thought, the end of the turn and white space."""


def assess(
    probe: Probe,
    answer: Answer,
    spec: CheckSpec,
    configured: ConfiguredParsers | None,
    fitting_tool_parser: str | None = None,
) -> tuple[Failure, ...]:
    """Return everything that is wrong with an answer.

    Args:
        probe: The request that it answers.
        answer: What came.
        spec: What was required.
        configured: The parsers that the server says it uses; None when it does not say.
        fitting_tool_parser: The tool-call parser that fits the model's calls, where they were seen as text: it tells
            the model's family, and so the reasoning parser.
    """
    return tuple(_Assessor(probe, answer, spec, configured, fitting_tool_parser).failures())


def tool_parser_fitting(answer: Answer) -> str | None:
    """Return the parser that would have read a call in an answer's content, or None when there is none to read."""
    syntax = recognise(answer.content, TOOL_CALL_SYNTAXES)
    return syntax.parsers[0] if syntax else None


@dataclass(frozen=True, slots=True)
class _Assessor:
    probe: Probe
    answer: Answer
    spec: CheckSpec
    configured: ConfiguredParsers | None
    fitting_tool_parser: str | None

    def failures(self) -> Iterator[Failure]:
        if self.answer.cut_while_thinking:
            yield self.over_budget("inside the thought")
        else:
            yield from self.call_failures() if self.probe.with_tool else self.text_failures()
            yield from self.thought_failures()
        yield from self.usage_failures()

    def call_failures(self) -> Iterator[Failure]:
        calls = self.answer.calls
        if not calls:
            yield self.missing_call()
        elif self.answer.finish_reason == "length":
            yield self.over_budget("inside the tool call")
        else:
            yield from self.wrong_call(calls[0])

    def missing_call(self) -> Failure:
        answer = self.answer
        if _holds_call(answer.content):
            return self.call_as_text()
        if _holds_call(answer.reasoning):
            return self.call_in_thought()
        if answer.finish_reason == "length":
            return self.over_budget("before a tool call was complete")
        if self.call_was_swallowed():
            return self.swallowed_call()
        return self.failure(
            FailureKind.NO_CALL,
            f"The model answered without calling {TOOL_NAME}, although it was asked to.",
            "If the model cannot call tools, set prove.tools = false; else see whether its chat template shows it the "
            "tools.",
            answer.content or answer.reasoning,
        )

    def call_as_text(self) -> Failure:
        syntax = recognise(self.answer.content, TOOL_CALL_SYNTAXES)
        parser = self.tool_parser
        return self.failure(
            FailureKind.CALL_AS_TEXT,
            f"The tool call came as text: {parser.fault(syntax)}. {parser.reading(syntax)}",
            parser.remedy(syntax),
            self.answer.content,
        )

    def call_in_thought(self) -> Failure:
        return self.failure(
            FailureKind.CALL_IN_THOUGHT,
            f"The tool call is inside reasoning_content: {self.reasoning_parser.subject()} did not find the end of "
            "the thought.",
            "Set engine.reasoning_parser to the parser of the model's family, or to 'auto', which reads the chat "
            "template.",
            self.answer.reasoning,
        )

    def call_was_swallowed(self) -> bool:
        """Whether text is missing that only a tool-call parser can have taken."""
        answer = self.answer
        if answer.content.strip() or self.tool_parser.is_absent:
            return False
        usage = answer.usage
        if usage is None or usage.completion_tokens is None:
            return False
        if usage.reasoning_tokens is None and answer.reasoning:
            return False
        return usage.completion_tokens - (usage.reasoning_tokens or 0) > CLOSING_TOKENS

    def swallowed_call(self) -> Failure:
        usage = self.answer.usage
        generated = usage.completion_tokens if usage else None
        others = ", ".join(parser for parser in SHARED_MARKER_PARSERS if parser != self.tool_parser.name)
        return self.failure(
            FailureKind.CALL_SWALLOWED,
            f"Neither a tool call nor a text arrived, although {generated} tokens were generated: "
            f"{self.tool_parser.subject()} began at the call's marker and did not understand what follows.",
            "Set engine.tool_call_parser to another parser with the same marker (for <tool_call> these are "
            f"{others}), or to 'auto', which reads the chat template.",
            self.answer.content or "(no text)",
        )

    def wrong_call(self, call: ToolCall) -> Iterator[Failure]:
        answer = self.answer
        shown = f"{call.name}({call.arguments})"
        if call.name != TOOL_NAME:
            yield self.failure(
                FailureKind.WRONG_FUNCTION,
                f"The tool call names {call.name!r}; the only function offered is {TOOL_NAME!r}.",
                f"See whether {TOOL_CALL.setting} fits the model: a parser for another syntax cuts names wrongly.",
                shown,
            )
        problem = arguments_problem(call.arguments)
        if problem is not None:
            yield self.failure(
                FailureKind.WRONG_ARGUMENTS,
                f"The tool call's arguments do not fit the tool's schema: {problem}.",
                f"See whether {TOOL_CALL.setting} fits the model: a parser for another syntax loses arguments.",
                shown,
            )
        if answer.finish_reason != "tool_calls":
            yield self.failure(
                FailureKind.WRONG_FINISH,
                f"The tool call arrived, but finish_reason is {answer.finish_reason!r} instead of 'tool_calls': "
                "clients will not act on it.",
                "Use an engine version in which the tool-call parser sets the finish reason.",
                shown,
            )
        if _holds_call(answer.content):
            yield self.failure(
                FailureKind.CALL_TWICE,
                "The tool call arrived, and the content still holds its markup.",
                f"See whether {TOOL_CALL.setting} fits the model; the content has to be free of markup.",
                answer.content,
            )

    def text_failures(self) -> Iterator[Failure]:
        answer = self.answer
        if answer.content.strip():
            return
        if answer.finish_reason == "length":
            yield self.over_budget("before the answer began")
        elif answer.reasoning.strip():
            yield self.failure(
                FailureKind.EMPTY_ANSWER,
                "The content is empty and everything the model said is in reasoning_content: "
                f"{self.reasoning_parser.subject()} found no end of the thought.",
                'If the model does not think, set engine.reasoning_parser = "" and prove.reasoning = false; else name '
                "the parser of its family, or 'auto'.",
                answer.reasoning,
            )
        else:
            yield self.failure(
                FailureKind.EMPTY_ANSWER,
                "The answer is empty: neither content nor a thought arrived.",
                "Look at the engine's log, and ask the model by hand; its chat template may end the turn at once.",
                f"finish_reason: {answer.finish_reason}",
            )

    def thought_failures(self) -> Iterator[Failure]:
        answer = self.answer
        syntax = recognise(answer.content, THOUGHT_SYNTAXES)
        if syntax is not None:
            parser = self.reasoning_parser
            partner = self.reasoning_partner()
            yield self.failure(
                FailureKind.THOUGHT_IN_CONTENT,
                f"The content holds the thought: {parser.fault(syntax)}. {parser.reading(syntax, partner)}",
                parser.remedy(syntax, partner),
                answer.content,
            )
        elif self.spec.reasoning and not answer.reasoning.strip():
            yield self.failure(
                FailureKind.NO_THOUGHT,
                "There is no thought: reasoning_content is empty and the content shows no markup of one; "
                f"{self.reasoning_parser.clause()}.",
                "If the model does not think, set prove.reasoning = false; else set engine.reasoning_parser to the "
                "parser of its family, or to 'auto'.",
                answer.content,
            )

    def reasoning_partner(self) -> str | None:
        """Return the reasoning parser that goes with the model's tool calls, as far as these are known."""
        tool_parser = self.fitting_tool_parser or self.tool_parser.name
        return REASONING_PARTNERS.get(tool_parser) if tool_parser else None

    def usage_failures(self) -> Iterator[Failure]:
        usage = self.answer.usage
        if not self.spec.cached_tokens or (usage and usage.cached_tokens is not None):
            return
        missing = "usage.prompt_tokens_details.cached_tokens" if usage else "usage"
        yield self.failure(
            FailureKind.NO_CACHED_TOKENS,
            f"The answer does not say how many prompt tokens came from the cache: {missing} is missing.",
            "Set engine.enable_cache_report = true (--enable-cache-report).",
            "",
        )

    def over_budget(self, where: str) -> Failure:
        answer = self.answer
        return self.failure(
            FailureKind.BUDGET,
            f"The budget of {self.spec.max_tokens} tokens ended {where}.",
            "Raise prove.max_tokens; a thinking model needs room to think.",
            answer.content.strip() or answer.reasoning,
        )

    @property
    def tool_parser(self) -> ParserInUse:
        configured = self.configured
        return ParserInUse(TOOL_CALL, configured.tool_call if configured else None, known=configured is not None)

    @property
    def reasoning_parser(self) -> ParserInUse:
        configured = self.configured
        return ParserInUse(REASONING, configured.reasoning if configured else None, known=configured is not None)

    def failure(self, kind: FailureKind, message: str, remedy: str, evidence: str) -> Failure:
        return Failure(kind, message, remedy, evidence[:EVIDENCE_CHARACTERS], (self.probe.name,))


def _holds_call(text: str) -> bool:
    return recognise(text, TOOL_CALL_SYNTAXES) is not None or holds_unknown_call(text, TOOL_NAME, "city")
