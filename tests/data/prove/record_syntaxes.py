"""Ask SGLang's own detectors which of them read each sample of `syntaxes.json`, and write the answers into it.

Run with the engine's Python, which has to be able to import sglang:

    SGLANG_USE_CPU_ENGINE=1 python tests/data/prove/record_syntaxes.py
"""

import json
from importlib.metadata import version
from pathlib import Path

from sglang.srt.entrypoints.openai.protocol import Tool
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import ReasoningParser

SAMPLES = Path(__file__).with_name("syntaxes.json")
TOOL = Tool(
    type="function",
    function={
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
)


def reads_call(parser: str, text: str) -> bool:
    """Whether a detector turns a sample into the one call that is in it."""
    try:
        _, calls = FunctionCallParser([TOOL], parser).parse_non_stream(text)
        return [(call.name, json.loads(call.parameters)) for call in calls] == [("get_weather", {"city": "Zurich"})]
    except Exception:  # noqa: BLE001 - a detector may fail in any way on a text that is not for it
        return False


def reads_thought(parser: str, text: str) -> bool:
    """Whether a detector splits a sample into its thought and its answer."""
    try:
        thought, answer = ReasoningParser(parser).parse_non_stream(text)
    except Exception:  # noqa: BLE001 - as above
        return False
    return (thought or "").strip() == "The user asks." and (answer or "").strip() == "Hello."


def main() -> None:
    """Rewrite the file."""
    data = json.loads(SAMPLES.read_text(encoding="utf-8"))
    data["sglang"] = version("sglang")
    for sample in data["tool_calls"].values():
        sample["readers"] = [name for name in FunctionCallParser.ToolCallParserEnum if reads_call(name, sample["text"])]
    for sample in data["thoughts"].values():
        sample["readers"] = [name for name in ReasoningParser.DetectorMap if reads_thought(name, sample["text"])]
    SAMPLES.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
