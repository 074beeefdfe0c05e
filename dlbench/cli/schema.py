"""`dlbench schema`: the JSON Schema of a scenario, or of an answer."""

import click


@click.command("schema")
@click.argument("of", type=click.Choice(["scenario", "answer"]), default="scenario")
def command(of: str) -> None:
    """Print the JSON Schema of a scenario file, with the plugins that are installed, or of what `recommend` prints.

    Write it to a file and name that in the first line of a scenario, and editors that speak YAML's language server
    complete and check as you type:

    # yaml-language-server: $schema=scenario.schema.json
    """
    import json

    from dlbench.analysis.answer.answer import Answers
    from dlbench.scenario.read.schema import schema

    content = schema() if of == "scenario" else Answers.model_json_schema()
    click.echo(json.dumps(content, indent=2, ensure_ascii=False))
