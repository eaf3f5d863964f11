"""Shadow mode on files: tries an approximation out on a series of a file, and draws the outcome.

The `holdfast shadow` command calls it. The windows themselves are in
`holdfast.windows.approximation`, which knows nothing of files.
"""
