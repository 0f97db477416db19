"""The options that say where the commands of an agent run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import cast

import click

from agentrewind.cli.options import together
from agentrewind.cli.screen import err, sentence
from agentrewind.compose.confining import CHOICES, VARIABLE, chosen
from agentrewind.core.errors import UsageError
from agentrewind.integrations.sandbox.spec import Confinement, Limits
from agentrewind.snapshots.budget import parse_size

sandbox_options = together(
    click.option(
        "--sandbox",
        type=click.Choice(CHOICES),
        default="auto",
        show_default=True,
        envvar=VARIABLE,
        help="Where its commands run. `bwrap`: a sandbox each. `session`: one sandbox, in which servers stay."
        " `docker`, `podman`: a container each. `none`: as you. `auto`: bwrap where it works, else none.",
    ),
    click.option(
        "--network",
        type=click.Choice(("off", "on")),
        default="off",
        show_default=True,
        help="Whether commands in the sandbox have the network of this machine.",
    ),
    click.option(
        "--sandbox-read",
        multiple=True,
        metavar="PATH",
        help="Something that commands in the sandbox may read, in addition. May be repeated.",
    ),
    click.option(
        "--sandbox-env",
        multiple=True,
        metavar="NAME",
        help="A variable that commands in the sandbox may see, in addition. May be repeated.",
    ),
    click.option("--sandbox-image", default="", metavar="IMAGE", help="The image of docker or podman."),
    click.option("--sandbox-memory", metavar="SIZE", help='The most memory that its commands may take, like "2 GB".'),
)
"""Those of a command that starts an agent."""


def confinement_of(options: Mapping[str, object], *, outlasting: bool) -> Confinement:
    """The confinement that the options ask for; says what has to be said where there will be none.

    `outlasting`: there are services, which have to outlast a command.

    Raises:
        UsageError: it can't be had.
    """
    kind, memory = str(options["sandbox"]), cast("str | None", options["sandbox_memory"])
    limits = Limits() if memory is None else Limits(memory=_size(memory))
    readable = cast("tuple[str, ...]", options["sandbox_read"])
    asked = Confinement(
        network=options["network"] == "on",
        readable=tuple(os.path.abspath(os.path.expanduser(path)) for path in readable),
        environ=cast("tuple[str, ...]", options["sandbox_env"]),
        image=str(options["sandbox_image"]),
        limits=limits,
    )
    confinement, told = chosen(kind, asked, outlasting=outlasting)
    for line in told:
        sentence(line, err())
    return confinement


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except UsageError as error:
        raise UsageError(f"--sandbox-memory: {error}") from error
