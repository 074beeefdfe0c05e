"""Layout and plan (pure), then execute and watch: everything about starting, watching and ending processes.

`Layout` says who runs where; `LaunchPlan(argv, env, files)` is exactly what is executed, and what `--dry-run` prints.
`dlbench.launch` never imports `dlbench.worker`: they share the run specification, `dlbench.telemetry` and
`dlbench.records`.
"""
