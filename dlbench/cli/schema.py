"""`dlbench schema`: the JSON Schema of a scenario."""

import click


@click.command("schema")
def command() -> None:
    """Print the JSON Schema of a scenario file, with the plugins that are installed.

    Write it to a file and name that in the first line of a scenario, and editors that speak YAML's language server
    complete and check as you type:

    # yaml-language-server: $schema=scenario.schema.json
    """
    import json

    from dlbench.scenario.read.schema import schema

    click.echo(json.dumps(schema(), indent=2, ensure_ascii=False))
