"""The syntaxes in which models write tool calls and thoughts, and the parsers of SGLang that read them.

Each row was tried on SGLang 0.5.23's own detectors: the named parsers turn a text in that syntax into the call or
the thought, and the others do not. A server may drop special tokens from its text, so some rows also know what is
left of a syntax then. A text that fits no row is *not recognised*; nothing is guessed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Syntax:
    """One way to write a call or a thought.

    Attributes:
        name: What people call it.
        parsers: Parsers that read it, the most likely first.
        pattern: Matches texts written in it and no others.
    """

    name: str
    parsers: tuple[str, ...]
    pattern: re.Pattern[str]


def _row(name: str, parsers: str, pattern: str) -> Syntax:
    return Syntax(name, tuple(parsers.split()), re.compile(pattern, re.DOTALL))


TOOL_CALL_SYNTAXES: Final = (
    # Markers that begin like another row's come before that row: the first match counts.
    # \uff5c is the full-width vertical line of DeepSeek's and GigaChat's special tokens.
    _row("Kimi K2", "kimi_k2", r"<\|tool_calls?_(?:section_)?begin\|>|\bfunctions\.[\w.-]+:\d+\s*(?:<\||\{)"),
    _row("Kimi K3", "kimi_k3", r"<\|open\|>(?:tools|call)\b"),
    _row("K2 Horizon", "k2_horizon", r"<ifm\|tool_calls?>"),
    _row("harmony", "gpt-oss", r"<\|channel\|>commentary\b|\bto=functions\.[\w.-]+"),
    _row("DeepSeek V3", "deepseekv3", r"<\uff5ctool▁call▁begin\uff5c>function<\uff5ctool▁sep\uff5c>"),
    _row("DeepSeek V3.1", "deepseekv31", r"<\uff5ctool▁call▁begin\uff5c>(?:(?!<\uff5c).)+<\uff5ctool▁sep\uff5c>\s*\{"),
    _row("DeepSeek V4.1", "deepseekv41", r"<\uff5cDSML\uff5c (?:calls|invoke)\b"),
    _row("DeepSeek V4", "deepseekv4 deepseekv32", r"<\uff5cDSML\uff5ctool_calls>"),
    _row("DeepSeek V3.2", "deepseekv32 deepseekv4", r"<\uff5cDSML\uff5c(?:function_calls>|invoke\b)"),
    _row("GigaChat 3.5", "gigachat35", r"<\uff5cGCML\uff5ctool_calls>"),
    _row("GigaChat 3", "gigachat3", r"<\|function_call\|>|function call<\|role_sep\|>"),
    _row("Step 3", "step3", r"<steptml:invoke\b"),
    _row("MiniMax M3", "minimax-m3", r"\]<\]minimax\[>\[\s*<tool_call>"),
    _row("MiniMax M2", "minimax-m2", r"<minimax:tool_call>"),
    _row("Mistral", "mistral", r"\[TOOL_CALLS\b|\[ARGS\]\s*\{"),
    _row("Apertus", "apertus2509", r"<\|tools_prefix\|>"),
    _row("LFM2", "lfm2", r"<\|tool_call_start\|>"),
    _row("InternLM", "interns1", r"<\|action_start\|>\s*<\|plugin\|>"),
    _row("Cohere Command", "cohere_command4", r"<\|START_ACTION\|>"),
    _row("Gemma 4", "gemma4", r"<\|tool_call>"),
    _row("Inkling", "inkling", r"<\|content_invoke_tool_(?:json|text)\|>"),
    _row("Muse ATEM", "muse", r"<atem:(?:function_calls|invoke)\b"),
    _row("dots", "dots", r"<dots_function_call>"),
    _row("IQuest", "iquest_q1", r"<iquest_tool_call>"),
    _row("Hunyuan", "hunyuan", r"<tool_calls>\s*<tool_call>[^<{]+<tool_sep\b"),
    _row("MiniCPM", "minicpm5", r"<function name=\""),
    _row("Qwen3-Coder", "qwen3_coder step3p5 nanbeige", r"<tool_call>\s*<function="),
    _row("GLM 4.7", "glm47 ling3 poolside_v1 spark25", r"<tool_call>[^\s<{]+<arg_key>"),
    _row("GLM 4.5", "glm ling3 poolside_v1", r"<tool_call>[^\s<{]+\s+<arg_key>"),
    _row("Qwen", "qwen hermes trinity", r"<tool_call>\n\{"),
    _row("Hermes", "hermes", r"<tool_call>\s*\{"),
    _row("Llama 3", "llama3", r"<\|python_tag\|>\s*\{|\A\s*\{\s*\"name\":\s*\"[^\"]+\",\s*\"parameters\":\s*\{"),
    _row("pythonic", "pythonic", r"\A\s*\[[A-Za-z]\w*\([A-Za-z]\w*\s*=.*\)\]\s*\Z"),
)
"""Syntaxes of tool calls; `recognise` takes the first that matches."""

THOUGHT_SYNTAXES: Final = (
    _row("MiniMax M3", "minimax-m3", r"</?mm:think>"),
    _row("K2 Horizon", "k2_horizon", r"</?ifm\|think(?:_fast|_faster)?>"),
    _row("Kimi K3", "kimi_k3", r"<\|(?:open|close)\|>think<\|sep\|>"),
    _row("harmony", "gpt-oss", r"<\|channel\|>analysis|\Aanalysis\S.*assistant(?:final|commentary)"),
    _row("Kimi", "kimi", r"◁/?think▷"),
    _row("Mistral", "mistral", r"\[/?THINK\]"),
    _row("Gemma 4", "gemma4", r"<\|channel>thought\b"),
    _row("Apertus", "apertus2509", r"<\|inner_(?:prefix|suffix)\|>"),
    _row("Cohere Command", "cohere_command4", r"<\|(?:START|END)_THINKING\|>"),
    _row("Inkling", "inkling", r"<\|content_thinking\|>"),
    _row("Muse", "muse", r"\A\s*to=self<\|message\|>"),
    _row(
        "<think>",
        "qwen3 deepseek-r1 glm45 kimi_k2 minimax step3 step3p5 hunyuan deepseek-v3 deepseek-v4 deepseek-v41 dots ling3 "
        "mimo poolside_v1 qwen3-thinking nanbeige nemotron_3 granite_thinking_parser interns1 gigachat35 iquest_q1",
        r"<think>",
    ),
    _row("<think> begun by the prompt", "deepseek-r1 qwen3-thinking minimax step3 step3p5 gigachat35", r"</think>"),
)
"""Syntaxes of thoughts; `recognise` takes the first that matches."""

REASONING_PARTNERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "qwen": "qwen3",
        "qwen3_coder": "qwen3",
        "hermes": "qwen3",
        "kimi_k2": "kimi_k2",
        "glm": "glm45",
        "glm45": "glm45",
        "glm47": "glm45",
        "minimax-m2": "minimax",
        "step3": "step3",
        "step3p5": "step3p5",
        "hunyuan": "hunyuan",
        "deepseekv31": "deepseek-v3",
        "deepseekv32": "deepseek-v3",
        "deepseekv4": "deepseek-v4",
        "deepseekv41": "deepseek-v41",
        "dots": "dots",
        "ling3": "ling3",
        "mimo": "mimo",
        "poolside_v1": "poolside_v1",
        "nanbeige": "nanbeige",
        "interns1": "interns1",
        "gigachat35": "gigachat35",
        "iquest_q1": "iquest_q1",
    }
)
"""By tool-call parser, the reasoning parser of the same family: it picks one of the many readers of ``<think>``."""

SHARED_MARKER_PARSERS: Final = ("qwen", "hermes", "qwen3_coder", "glm47", "glm")
"""Common parsers that all begin at ``<tool_call>`` and then expect different things."""


def recognise(text: str, table: tuple[Syntax, ...]) -> Syntax | None:
    """Return the syntax that a text is written in, or None when no row of the table fits."""
    return next((syntax for syntax in table if syntax.pattern.search(text)), None)


def holds_unknown_call(text: str, tool_name: str, argument: str) -> bool:
    """Whether a text carries a call in no known syntax.

    That is the arguments as JSON, alone or beside the tool's name, or the tool's name as an attribute of markup.
    Prose that mentions the tool is no call, and neither is an example in words.

    Args:
        text: The content of an answer.
        tool_name: Name of the tool that was offered.
        argument: Name of its required argument.
    """
    name = re.escape(tool_name)
    arguments = rf"\{{\s*\"{re.escape(argument)}\"\s*:"
    alone = re.match(rf"\s*{arguments}", text)
    beside = re.search(rf"\b{name}\b.{{0,80}}?{arguments}", text, re.DOTALL)
    attribute = re.search(rf"<[^<>]*=\s*[\"']?{name}[\"']?\s*/?>", text)
    return any((alone, beside, attribute))
