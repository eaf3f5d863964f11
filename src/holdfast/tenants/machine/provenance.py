"""Access along provenance: readers that the owners of all data allow.

A stream has the rule of its own access and those of all streams whose data are in it, however many
streams lie between. On the data of one owner the last word is that of the owner's last stream on
the way: whoever shares a mean may keep what it is made of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from holdfast.tenants.machine.definitions import owner_of
from holdfast.tenants.machine.documents import Access
from holdfast.tenants.machine.graph import components


class Rule(NamedTuple):
    """Access to the data of one owner. A stream has few different ones, whatever lies behind."""

    owner: str
    allow: tuple[str, ...]
    deny: tuple[str, ...]

    def admits(self, tenant: str) -> bool:
        if tenant == self.owner:
            return True
        if tenant in self.deny or "*" in self.deny:
            return False
        return tenant in self.allow or "*" in self.allow


Rules = frozenset[Rule]


class Behind(NamedTuple):
    rules: dict[str, Rules]
    """For each stream that was looked at, its own rule and those of all behind it."""
    sources: dict[str, set[str]]
    """For each of them, the streams right behind it."""


def refusing(rules: Iterable[Rule], tenant: str) -> list[str]:
    """Owners that do not let a tenant read their data."""
    return sorted({rule.owner for rule in rules if not rule.admits(tenant)})


def open_to_all(rules: Iterable[Rule]) -> bool:
    return all("*" in rule.allow and not rule.deny for rule in rules)


def rules_behind(
    paths: Iterable[str],
    sources_of: Callable[[list[str]], Iterable[tuple[str, str]]],
    access_of: Callable[[list[str]], Mapping[str, Access]],
    known: Mapping[str, Rules],
) -> Behind:
    """The rules of these streams. `sources_of` answers pairs of source and target; the rules of
    those that are `known` are not looked up again."""
    sources: dict[str, set[str]] = {}
    following: dict[str, set[str]] = {}
    front = sorted(set(paths) - known.keys())
    while front:
        sources |= {path: set() for path in front}
        for source, target in sources_of(front):
            sources[target].add(source)
            following.setdefault(source, set()).add(target)
        found = {source for path in front for source in sources[path]}
        front = sorted(found - sources.keys() - known.keys())
    access = access_of(sorted(sources))
    rules: dict[str, Rules] = {}
    for cycle in components(sorted(sources), following):
        inside = [path for path in cycle if path in sources]
        rules |= {path: frozenset([_rule(path, access.get(path, Access()))]) for path in inside}
        grown = True
        while grown:
            # Round a cycle until there are no more of them.
            grown = False
            for path in inside:
                more = rules[path] | _passed_on(path, sources[path], rules, known)
                grown = grown or (more != rules[path] and len(inside) > 1)
                rules[path] = more
    return Behind(rules, sources)


def _passed_on(
    path: str, sources: Iterable[str], rules: Mapping[str, Rules], known: Mapping[str, Rules]
) -> Rules:
    owner = owner_of(path)
    behind = [known[source] if source in known else rules[source] for source in sources]
    return frozenset(rule for some in behind for rule in some if rule.owner != owner)


def _rule(path: str, access: Access) -> Rule:
    return Rule(owner_of(path), tuple(sorted(access.allow)), tuple(sorted(access.deny)))
