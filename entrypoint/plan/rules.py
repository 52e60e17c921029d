"""The rules: what a plan is checked for before anything starts.

A rule looks at what the command *means*, so that no spelling slips through, and has an identifier that
``rules.ignore`` takes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from entrypoint.engine.flag_check import FlagProblem, FlagProblemKind, check
from entrypoint.engine.flags import FlagTable
from entrypoint.findings import Finding, Severity
from entrypoint.plan.arguments import SECRET_DESTINATIONS, Argument, words
from entrypoint.settings.schema import Settings

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
LARGEST_PORT = 65535
UNCHECKED = "flags-unchecked"
"""The rule that there is no list of the engine's flags to check against."""
PORT_DIGITS = 5


@dataclass(frozen=True, slots=True)
class RuleInput:
    """What the rules look at.

    Attributes:
        settings: What the user wants.
        flags: The engine's flags with the settings they come from.
        extra: Words after ``--``.
        meaning: What the arguments set, by destination.
        table: The engine's own flags, where they are known.
        engine_version: The engine's version, where it is known.
        nodes: Number of nodes of the step.
        needs_key_file: The engine gets keys through a private configuration file.
        clients_need_key: Clients must send a key; one for administrative calls alone asks nothing of them.
    """

    settings: Settings
    flags: tuple[Argument, ...]
    extra: tuple[str, ...]
    meaning: Mapping[str, tuple[str, ...]]
    table: FlagTable | None
    engine_version: str | None
    nodes: int
    needs_key_file: bool
    clients_need_key: bool

    @property
    def argv(self) -> tuple[str, ...]:
        """The engine's arguments without the program."""
        return words(self.flags, self.extra)

    def setting_of(self, flag: str) -> str | None:
        """Return the setting that a flag comes from; None for one given after ``--``."""
        return next((argument.setting for argument in self.flags if argument.flag == flag), None)


Rule = Callable[[RuleInput], tuple[Finding, ...]]


def model_named(plan: RuleInput) -> tuple[Finding, ...]:
    """A server needs a model."""
    if "model_path" in plan.meaning:
        return ()
    return (
        Finding(
            "model-unset",
            Severity.ERROR,
            "No model is named.",
            "Set model.path to a directory or a hub id, or choose a profile that does: supervise profiles.",
            "model.path",
        ),
    )


def name_is_text(plan: RuleInput) -> tuple[Finding, ...]:
    """Clients name the model in JSON, which is UTF-8; a path may hold any bytes."""
    name = (plan.meaning.get("served_model_name") or plan.meaning.get("model_path") or ("",))[0]
    if name == name.encode("utf-8", "replace").decode():
        return ()
    return (
        Finding(
            "name-unspeakable",
            Severity.ERROR,
            f"The model would be served as {name!r}, which is no UTF-8 text: no client could ask for it.",
            "Set model.served_name to a plain name.",
            "model.served_name",
        ),
    )


def both_parsers(plan: RuleInput) -> tuple[Finding, ...]:
    """A server without one of its parsers answers 200 with the call, or the thought, as prose."""
    wanted = (
        ("tool_call_parser", plan.settings.prove.tools, "tool calls arrive as prose in content", "prove.tools"),
        ("reasoning_parser", plan.settings.prove.reasoning, "thoughts stay in content", "prove.reasoning"),
    )
    return tuple(
        Finding(
            "parsers-both",
            Severity.ERROR,
            f"No {name.replace('_', '-')} is named: the server would start and look healthy while {consequence}.",
            f'Set engine.{name} to the model\'s parser or to "auto"; for a model that has no use for it set '
            f"{switch} = false.",
            f"engine.{name}",
        )
        for name, required, consequence, switch in wanted
        if required and not any(plan.meaning.get(name, ()))
    )


def no_secret_in_arguments(plan: RuleInput) -> tuple[Finding, ...]:
    """Everybody on a node can read everybody's command lines."""
    return tuple(
        Finding(
            "secret-in-argv",
            Severity.ERROR,
            f"--{name.replace('_', '-')} stands in the command line, which every user of the node can read.",
            f"Set engine.{name}_file to a file that holds the key; the engine then gets it through a private file.",
            f"engine.{name}_file",
        )
        for name in sorted(SECRET_DESTINATIONS & plan.meaning.keys() | _abbreviated_secrets(plan))
    )


def _abbreviated_secrets(plan: RuleInput) -> frozenset[str]:
    """Return the secrets whose flags are cut short, where no list of the engine's flags tells what they mean."""
    if plan.table is not None:
        return frozenset()
    cut = {word.partition("=")[0] for word in plan.argv if word.startswith("--a")}
    full = {f"--{name.replace('_', '-')}": name for name in SECRET_DESTINATIONS}
    return frozenset(
        name for flag, name in full.items() if any(flag.startswith(begun) and len(begun) >= LEAST_CUT for begun in cut)
    )


LEAST_CUT = len("--ap")
"""Below it the engine itself would not know which flag is meant."""


def one_config_file(plan: RuleInput) -> tuple[Finding, ...]:
    """The engine reads a single configuration file, and the keys need it."""
    if not plan.needs_key_file or "config" not in plan.meaning:
        return ()
    return (
        Finding(
            "config-file-taken",
            Severity.ERROR,
            "The engine takes one --config file; yours leaves none for the keys.",
            "Move the contents of your file to [engine.args].",
            "engine.args.config",
        ),
    )


def port_readable(plan: RuleInput) -> tuple[Finding, ...]:
    """Nobody can be told to come to a port that is no number."""
    port = plan.meaning.get("port", ("",))[0]
    if not port or is_port(port):
        return ()
    return (
        Finding(
            "port-unreadable",
            Severity.ERROR,
            f"The engine's port is {port!r}, which is no port.",
            "Give a number from 1 to 65535 as engine.port.",
            "engine.port",
        ),
    )


def is_port(text: str) -> bool:
    """Say whether a text is the number of a port."""
    return text.isascii() and text.isdigit() and len(text) <= PORT_DIGITS and 0 < int(text) <= LARGEST_PORT


def ports_apart(plan: RuleInput) -> tuple[Finding, ...]:
    """Engine and supervisor cannot listen on the same port."""
    port = plan.meaning.get("port", ("",))[0]
    if not is_port(port) or int(port) != plan.settings.health.port:
        return ()
    return (
        Finding(
            "ports-clash",
            Severity.ERROR,
            f"Engine and health endpoints both want port {plan.settings.health.port}.",
            "Give health.port another number.",
            "health.port",
        ),
    )


def one_node(plan: RuleInput) -> tuple[Finding, ...]:
    """A server that spans nodes needs its ranks started as one."""
    if plan.nodes == 1:
        return ()
    return (
        Finding(
            "several-nodes",
            Severity.ERROR,
            f"The step spans {plan.nodes} nodes, and this version starts servers of one node.",
            "Start one step per node: srun --nodes=1 --ntasks=1.",
        ),
    )


def access_closed(plan: RuleInput) -> tuple[Finding, ...]:
    """An engine that listens beyond loopback serves whoever reaches it."""
    host = plan.meaning.get("host", ("",))[0] or "127.0.0.1"
    if host in LOOPBACK_HOSTS or plan.settings.engine.access != "open" or plan.clients_need_key:
        return ()
    return (
        Finding(
            "access-open",
            Severity.WARNING,
            f"The engine listens on {host} without a key: whoever reaches this node can use it.",
            'Leave engine.access at "key", or set engine.api_key_file.',
            "engine.access",
        ),
    )


def flags_known(plan: RuleInput) -> tuple[Finding, ...]:
    """A flag that the engine refuses ends every rank; the engine itself says which it takes."""
    if plan.table is None:
        engine = f"SGLang {plan.engine_version}" if plan.engine_version else "this engine"
        return (
            Finding(
                UNCHECKED,
                Severity.NOTE,
                f"The flags went unchecked: no list of the flags of {engine} is stored here.",
                "A run, or supervise check where the engine is installed, asks the engine and stores the list.",
            ),
        )
    return tuple(_flag_finding(problem, plan) for problem in check(plan.table, plan.argv))


def _flag_finding(problem: FlagProblem, plan: RuleInput) -> Finding:
    note = problem.kind is FlagProblemKind.IGNORED
    return Finding(
        f"flag-{problem.kind}",
        Severity.ERROR if problem.kind.refused else Severity.NOTE if note else Severity.WARNING,
        problem.message,
        problem.remedy,
        plan.setting_of(problem.spelling),
    )


RULES: tuple[Rule, ...] = (
    model_named,
    name_is_text,
    both_parsers,
    no_secret_in_arguments,
    one_config_file,
    port_readable,
    ports_apart,
    one_node,
    access_closed,
    flags_known,
)


def judge(plan: RuleInput) -> tuple[Finding, ...]:
    """Return what all rules find, in their order."""
    return tuple(finding for rule in RULES for finding in rule(plan))
