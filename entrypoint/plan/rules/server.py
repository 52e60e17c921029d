"""Rules about the server as such: its model's name, ports, keys and access."""

from collections.abc import Iterator

from entrypoint.findings import Severity
from entrypoint.plan.arguments import SECRET_DESTINATIONS
from entrypoint.plan.rules.rule import LOOPBACK_HOSTS, Hit, Rule, RuleInput, is_port

LEAST_CUT = len("--ap")
"""Below it the engine itself would not know which flag is meant."""
_OWN = "supervise itself"


def _no_model(plan: RuleInput) -> Iterator[Hit]:
    if "model_path" not in plan.meaning:
        yield Hit("No model is named.")


def _unspeakable_name(plan: RuleInput) -> Iterator[Hit]:
    name = plan.value("served_model_name") or plan.value("model_path")
    if name != name.encode("utf-8", "replace").decode():
        yield Hit(f"The model would be served as {name!r}, which is no UTF-8 text: no client could ask for it.")


def _secrets_in_arguments(plan: RuleInput) -> Iterator[Hit]:
    for name in sorted(SECRET_DESTINATIONS & plan.meaning.keys() | _abbreviated_secrets(plan)):
        yield Hit(
            f"--{name.replace('_', '-')} stands in the command line, which every user of the node can read.",
            f"Set engine.{name}_file to a file that holds the key; the engine then gets it through a private file.",
            f"engine.{name}_file",
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


def _two_config_files(plan: RuleInput) -> Iterator[Hit]:
    if plan.needs_key_file and "config" in plan.meaning:
        yield Hit("The engine takes one --config file; yours leaves none for the keys.")


def _unreadable_port(plan: RuleInput) -> Iterator[Hit]:
    port = plan.value("port")
    if port and not is_port(port):
        yield Hit(f"The engine's port is {port!r}, which is no port.")


def _clashing_ports(plan: RuleInput) -> Iterator[Hit]:
    port = plan.value("port")
    if is_port(port) and int(port) == plan.settings.health.port:
        yield Hit(f"Engine and health endpoints both want port {port}.")


def _open_access(plan: RuleInput) -> Iterator[Hit]:
    host = plan.value("host") or "127.0.0.1"
    if host not in LOOPBACK_HOSTS and plan.settings.engine.access == "open" and not plan.clients_need_key:
        yield Hit(f"The engine listens on {host} without a key: whoever reaches this node can use it.")


RULES = (
    Rule(
        "model-unset",
        Severity.ERROR,
        "the model's name",
        "A server needs a model.",
        _OWN,
        "Set model.path to a directory or a hub id, or choose a profile that does: supervise profiles.",
        _no_model,
        "model.path",
    ),
    Rule(
        "name-unspeakable",
        Severity.ERROR,
        "the name under which the model is served",
        "Clients name the model in JSON, which is UTF-8; a path may hold any bytes.",
        _OWN,
        "Set model.served_name to a plain name.",
        _unspeakable_name,
        "model.served_name",
    ),
    Rule(
        "secret-in-argv",
        Severity.ERROR,
        "keys among the engine's flags",
        "Everybody on a node can read everybody's command lines.",
        "proc(5); SGLang takes keys from its YAML file as well (0.5.23)",
        "Set engine.api_key_file or engine.admin_api_key_file; the engine then gets the key through a private file.",
        _secrets_in_arguments,
    ),
    Rule(
        "config-file-taken",
        Severity.ERROR,
        "a --config file beside keys",
        "The engine reads a single configuration file, and the keys need it.",
        "SGLang 0.5.23",
        "Move the contents of your file to [engine.args].",
        _two_config_files,
        "engine.args.config",
    ),
    Rule(
        "port-unreadable",
        Severity.ERROR,
        "the engine's port",
        "Nobody can be told to come to a port that is no number.",
        _OWN,
        "Give a number from 1 to 65535 as engine.port.",
        _unreadable_port,
        "engine.port",
    ),
    Rule(
        "ports-clash",
        Severity.ERROR,
        "the two ports of a run",
        "Engine and supervisor cannot listen on the same port.",
        _OWN,
        "Give health.port another number.",
        _clashing_ports,
        "health.port",
    ),
    Rule(
        "access-open",
        Severity.WARNING,
        "an engine that listens beyond loopback without a key",
        "It serves whoever reaches it.",
        _OWN,
        'Leave engine.access at "key", or set engine.api_key_file.',
        _open_access,
        "engine.access",
    ),
)
