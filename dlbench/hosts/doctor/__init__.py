"""What may be wrong with the hosts of a cluster: each host reports what it is, and checks judge the reports.

`gather` asks all hosts at once and measures the links between them; the result is `ClusterFacts`. A check is a pure
function from the facts and one host to findings, each with a verdict, what was found and the command that fixes it.
`checks.examine` applies the table of all checks.
"""
