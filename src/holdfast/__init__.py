"""Holdfast: windowed stream analytics on Apache Spark that stay available and right under faults.

Importing this package is cheap on purpose: it loads neither Spark nor Arrow nor NumPy.
Import what you use from its subpackages, for example `holdfast.windows`.
"""

__version__ = "0.1.0"
__all__ = ["__version__"]
