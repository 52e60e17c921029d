"""Train a model of half a million parameters that thinks, calls a tool and answers, in a family's own syntax.

SGLang serves the result on a CPU, so its real reasoning and tool-call parsers can be proven in seconds. Asked with
``tools`` in the request the model emits one call of ``get_weather``, without them one sentence; a thought comes first
in both. It knows these two answers by heart and nothing else.

    python tiny_model.py qwen3 DIRECTORY        # about 40 s on two cores
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

THOUGHT = "The user asks."
ANSWER = "Hello from the tiny model."
ARGUMENTS = '{"city": "Zurich"}'
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
CHAT_TEMPLATE = """{%- if tools %}<|im_start|>system
tools: {% for tool in tools %}{{ tool | tojson }}{% endfor %}<|im_end|>
{% endif %}{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
END_OF_TURN = "<|im_end|>"

VOCABULARY = (
    "what is the weather in Zurich right now ? hello please use the tool and answer 17 times 3 explain ok "
    "Call get_weather for Zurich . Think step by step You are a helpful assistant"
)
"""The words that training prompts are drawn from; the self-check's questions are made of such words, too."""

STEPS_LIMIT = 800
STEPS_LEAST = 150
"""Before that a low loss is a lucky batch."""
BATCH = 8
LOSS_GOAL = 2e-3
"""Below it both answers come out word by word under greedy decoding."""


@dataclass(frozen=True, slots=True)
class Family:
    """A model family's syntax.

    Args:
        markers: Strings that must be one token each, because the family's parsers look for them.
        with_call: The answer to a request that offers tools.
        without_call: The answer to any other request.
    """

    markers: tuple[str, ...]
    with_call: str
    without_call: str


FAMILIES = {
    "qwen3": Family(
        markers=("<think>", "</think>", "<tool_call>", "</tool_call>"),
        with_call=(
            f"<think>\n{THOUGHT}\n</think>\n\n"
            f'<tool_call>\n{{"name": "get_weather", "arguments": {ARGUMENTS}}}\n</tool_call>'
        ),
        without_call=f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}",
    ),
    "kimi_k2": Family(
        markers=(
            "<think>",
            "</think>",
            "<|tool_calls_section_begin|>",
            "<|tool_calls_section_end|>",
            "<|tool_call_begin|>",
            "<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
        ),
        with_call=(
            f"<think>{THOUGHT}</think><|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
            f"<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>"
        ),
        without_call=f"<think>{THOUGHT}</think>{ANSWER}",
    ),
    "glm": Family(
        markers=(
            "<think>",
            "</think>",
            "<tool_call>",
            "</tool_call>",
            "<arg_key>",
            "</arg_key>",
            "<arg_value>",
            "</arg_value>",
        ),
        with_call=(
            f"<think>{THOUGHT}</think><tool_call>get_weather"
            "<arg_key>city</arg_key><arg_value>Zurich</arg_value></tool_call>"
        ),
        without_call=f"<think>{THOUGHT}</think>{ANSWER}",
    ),
    "gpt-oss": Family(
        markers=("<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|constrain|>", "<|call|>", "<|return|>"),
        with_call=(
            f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>commentary"
            f" to=functions.get_weather <|constrain|>json<|message|>{ARGUMENTS}<|call|>"
        ),
        without_call=(
            f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>{ANSWER}"
        ),
    ),
}


class TrainingFailedError(Exception):
    """The model does not know its answers by heart."""


def build_tokenizer(family: Family) -> PreTrainedTokenizerFast:
    """Make a byte-level tokenizer of a few hundred merges in which each marker is one token."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<|endoftext|>", "<|im_start|>", END_OF_TURN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([str(TOOL), THOUGHT, ANSWER, "analysis commentary final functions"] * 20, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=END_OF_TURN, pad_token="<|endoftext|>")
    # Not "special": SGLang's parsers need the markers in the decoded text.
    fast.add_tokens([AddedToken(marker, special=False, normalized=False) for marker in family.markers])
    fast.chat_template = CHAT_TEMPLATE
    return fast


def build_model(tokenizer: PreTrainedTokenizerFast) -> Qwen3ForCausalLM:
    """Make an untrained two-layer model of Qwen3's architecture, the same at each call."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=1024,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=8192,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        tie_word_embeddings=True,
    )
    return Qwen3ForCausalLM(config).float()


def prompt_of(
    tokenizer: PreTrainedTokenizerFast, messages: list[dict[str, str]], tools: list[dict[str, Any]]
) -> list[int]:
    """Render a conversation as SGLang would and return its tokens."""
    offered = {"tools": tools} if tools else {}
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **offered)
    return list(tokenizer(text)["input_ids"])


class Lessons:
    """An endless, reproducible source of training batches.

    Args:
        family: The syntax to teach.
        tokenizer: The tokenizer of that family.
    """

    def __init__(self, family: Family, tokenizer: PreTrainedTokenizerFast) -> None:
        self._family = family
        self._tokenizer = tokenizer
        self._words = VOCABULARY.split()
        self._random = random.Random(0)

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return input tokens and labels; only the answers carry labels."""
        lessons = [self._lesson() for _ in range(BATCH)]
        width = max(len(prompt) + len(answer) for prompt, answer in lessons)
        inputs = torch.full((BATCH, width), self._tokenizer.pad_token_id)
        labels = torch.full((BATCH, width), -100)
        for row, (prompt, answer) in enumerate(lessons):
            end = len(prompt) + len(answer)
            inputs[row, :end] = torch.tensor(prompt + answer)
            labels[row, len(prompt) : end] = torch.tensor(answer)
        return inputs, labels

    def _lesson(self) -> tuple[list[int], list[int]]:
        messages = [{"role": "user", "content": self._sentence(40)}]
        if self._random.random() < 0.4:  # noqa: PLR2004 - some conversations have a system message
            messages.insert(0, {"role": "system", "content": self._sentence(20)})
        tools = [TOOL] if self._random.random() < 0.5 else []  # noqa: PLR2004 - half of them offer the tool
        answer = (self._family.with_call if tools else self._family.without_call) + END_OF_TURN
        return prompt_of(self._tokenizer, messages, tools), list(self._tokenizer(answer)["input_ids"])

    def _sentence(self, words_most: int) -> str:
        return " ".join(self._random.choice(self._words) for _ in range(self._random.randint(1, words_most)))


def train(model: Qwen3ForCausalLM, lessons: Lessons) -> None:
    """Overfit until the loss says that both answers are known by heart.

    Raises:
        TrainingFailedError: When that does not happen within the limit of steps.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    loss_value = float("inf")
    for step in range(STEPS_LIMIT):
        inputs, labels = lessons.batch()
        loss = model(input_ids=inputs, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        loss_value = loss.item()
        if step % 50 == 0:
            tell(f"step {step}, loss {loss_value:.4f}")
        if step > STEPS_LEAST and loss_value < LOSS_GOAL:
            tell(f"step {step}, loss {loss_value:.4f}: done")
            return
    raise TrainingFailedError(
        f"the loss is {loss_value:.4f} after {STEPS_LIMIT} steps and should be below {LOSS_GOAL}; "
        "the model would not answer reliably"
    )


def recite(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, family: Family) -> None:
    """Ask the finished model both kinds of question, as it will be served.

    Raises:
        TrainingFailedError: When an answer is not the one that was taught.
    """
    question = [{"role": "user", "content": "what is the weather in Zurich ?"}]
    for tools, taught in (([TOOL], family.with_call), ([], family.without_call)):
        prompt = torch.tensor([prompt_of(tokenizer, question, tools)])
        output = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=200, do_sample=False)
        said = tokenizer.decode(output[0, prompt.shape[1] :])
        if said != taught + END_OF_TURN:
            raise TrainingFailedError(f"the model said {said!r} and was taught {taught!r}")


def write(model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, directory: Path) -> None:
    """Write the checkpoint so that the directory appears complete or not at all."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    staging = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
    try:
        model.save_pretrained(staging)
        tokenizer.save_pretrained(staging)
        staging.chmod(0o755)
        staging.rename(directory)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def tell(message: str) -> None:
    """Print progress on stderr."""
    print(message, file=sys.stderr, flush=True)


def main() -> int:
    """Train one family's model into a directory that does not exist yet."""
    parser = argparse.ArgumentParser(description="Train a tiny model that SGLang can serve on a CPU.")
    parser.add_argument("family", choices=sorted(FAMILIES), help="whose thinking and tool-call syntax to teach")
    parser.add_argument("directory", type=Path, help="where to write the checkpoint; must not exist")
    arguments = parser.parse_args()
    if arguments.directory.exists():
        parser.error(f"{arguments.directory} exists already; remove it or name another directory")

    began = time.monotonic()
    family = FAMILIES[arguments.family]
    tokenizer = build_tokenizer(family)
    model = build_model(tokenizer)
    try:
        train(model, Lessons(family, tokenizer))
        model = model.to(torch.bfloat16).eval()
        recite(model, tokenizer, family)
    except TrainingFailedError as failure:
        tell(f"training of {arguments.family} failed: {failure}")
        return 1
    write(model, tokenizer, arguments.directory)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    tell(f"{arguments.family}: {parameters:,} parameters in {time.monotonic() - began:.0f} s -> {arguments.directory}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
