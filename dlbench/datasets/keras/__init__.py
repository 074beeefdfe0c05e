"""The data sets that Keras ships, loaded by Keras itself into its own cache: `keras:mnist` and so on.

mnist.py, fashion_mnist.py, cifar10.py, cifar100.py    pictures
imdb.py, reuters.py                                    texts as numbers of words
_load.py                                               Keras, imported quietly, and what can go wrong with it
_pictures.py, _words.py                                what those of a kind have in common
"""

# Data sets of Keras that cannot be used, with the reason.
REFUSED = dict.fromkeys(
    ("boston_housing", "california_housing"), "its targets are prices, which is regression; dlbench trains classifiers"
)
