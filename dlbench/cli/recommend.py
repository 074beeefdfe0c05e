"""`dlbench recommend`: what to use, what is open, what to doubt, what to run next."""

from pathlib import Path

import click

from dlbench.cli import COMPLETED, options, tables
from dlbench.errors import UserError
from dlbench.scenario.goal import FORMS

NOTHING = 4


@click.command("recommend")
@options.several_studies
@click.option("--goal", default="", metavar="GOAL", help=f"What decides: {FORMS.replace('`', '')}.")
@click.option("--given", multiple=True, metavar="AXIS", help="A condition, not a choice; may be given again.")
@click.option("--price", metavar="2.5USD/worker-hour", help="Price of a worker or a host for an hour.")
@click.option("--deadline", metavar="2h", help="Longest training time.")
@click.option("--max-cost", type=click.FloatRange(min=0), metavar="X", help="Most that training may cost.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for programs; `dlbench schema answer` describes it.")
def command(
    studies: tuple[Path, ...],
    goal: str,
    given: tuple[str, ...],
    price: str | None,
    deadline: str | None,
    max_cost: float | None,
    as_json: bool,
) -> int:
    """Say what to use, from the rows of one or several STUDY folders; nothing is measured.

    Exit code: 0 where an arm is recommended in every group, 4 where in one none is.
    """
    from dlbench.analysis.answer.decide import Wanted
    from dlbench.report.answers import answers_of
    from dlbench.report.data import read
    from dlbench.scenario.cluster import read_price

    data = read(studies)
    prices = read_price(price) if price is not None else None
    wanted = Wanted(prices=prices, deadline_s=_seconds(deadline), max_cost=max_cost)
    answers = answers_of(data, goal, given, wanted)
    if as_json:
        click.echo(answers.model_dump_json(indent=1))
    else:
        for line in tables.answer_lines(answers, data.metrics, tables.console()):
            click.echo(line)
    return COMPLETED if all(answer.use is not None for answer in answers.answers) else NOTHING


def _seconds(text: str | None) -> float | None:
    """Return a time such as `2h` in seconds.

    Raises:
        UserError: It is none.
    """
    from dlbench.scenario.units import in_unit_of

    try:
        return None if text is None else float(in_unit_of("deadline_s", text))
    except ValueError:
        raise UserError(f"--deadline {text!r} is no time", hint="for example 90s, 30min, 2h") from None
