"""Campaigns that are too long for every day: `python -m tests.soak --help`, or all of them with `make soak`."""

import click

from tests.soak.advice import advice
from tests.soak.claims import claims
from tests.soak.faults import faults
from tests.soak.hosts import hosts
from tests.soak.kills import kills
from tests.soak.mutations import main as mutations
from tests.soak.schedules import schedules
from tests.soak.strangers import strangers


@click.group()
def soak() -> None:
    """Campaigns against dlbench; each writes a table of what it found to --output."""


for command in (faults, kills, hosts, strangers, mutations, claims, advice, schedules):
    soak.add_command(command)

if __name__ == "__main__":
    soak(prog_name="python -m tests.soak")
