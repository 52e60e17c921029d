"""What an EDF is used for: by which model's server, on how many nodes of which site."""

from dataclasses import dataclass

from entrypoint.site.site import Site


@dataclass(frozen=True, slots=True)
class Use:
    """The use of an EDF.

    Attributes:
        nodes: Nodes that one server spans; None where only the EDF itself tells, by its hooks.
        site: The cluster.
        family: The model's family, or None where any model may be served.
    """

    nodes: int | None
    site: Site
    family: str | None = None
