"""Messages and rows between processes, over Arrow Flight.

A party runs a `LogServer`; whoever reads of it keeps a `Link` to it, or makes single calls with a
`LogClient`.
"""
