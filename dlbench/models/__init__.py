"""The networks, one file each.

A model file holds a one-line doc, `OPTIONS`, and one builder for each engine that can train it:

    def keras(problem: Problem, options: Options) -> keras.Model: ...     # logits of shape [n, num_classes]
    def numpy(problem: Problem, options: Options) -> tuple[int, ...]: ... # widths of its dense ReLU layers

Which trainers can serve it is said by which builders it has (a trainer's `BUILDER` names the one it calls).
A user's own `package.module:function` is called as the `keras` builder: `function(problem, **options)`.
"""
