"""What may be wrong with the hosts of a cluster: every host tells what it is, and checks judge what it told.

`gather` asks all hosts at once and measures the links between them; what comes of it is `Facts`. A check is a pure
function from the facts and one host to remarks, each with a verdict, what was found and the command that mends it.
`examine` applies all of them.
"""
