"""What may be wrong with the hosts of a cluster: each host reports what it is, and checks judge the reports.

`facts.gather` asks all hosts at once (`probes` answers on each) and measures the links between them. `checks.examine`
reads the table of all checks over these `ClusterFacts`: each finding has a verdict, what was found and the command that
fixes it.
"""
