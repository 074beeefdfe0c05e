"""YAML to a `Scenario`: every mistake one message with its file and line."""
