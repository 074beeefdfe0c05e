"""Programs and plugins that tests run on Horovod, under the launchers' own commands."""
