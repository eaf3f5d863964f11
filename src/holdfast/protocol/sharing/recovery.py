"""What a dead colleague had in hand: found in the shared table, asked for above, done as if new.

Who holds the seat of the dead answers for its records. All replicas above are asked, since one of
them may have taken over there as well. When none of them has a tuple, nor anything in hand that it
could come of, it is lost, and counted. (Digest of tuple-delivery, §4, recovery.)
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.protocol.sharing.books import Book
from holdfast.protocol.sharing.ids import TupleId
from holdfast.protocol.sharing.messages import Request
from holdfast.protocol.sharing.post import Post
from holdfast.protocol.sharing.tables import SharedTable

__all__ = ["Recovery"]


class Recovery:
    def __init__(self, me: str, book: Book, table: SharedTable, post: Post) -> None:
        self._me = me
        self._book = book
        self._table = table
        self._post = post
        self.wanted: dict[TupleId, set[str]] = {}
        """What is asked for, and who does not have it."""
        self._due = 0

    def answers_for(self, tuple_id: TupleId) -> str:
        """Who has a pending tuple in hand, or has to see to it."""
        holder = self._table.pending[tuple_id]
        return self._book.heir(holder.replica)

    def look(self, in_hand: Iterable[TupleId]) -> None:
        """Somebody is gone or back: what is to be asked for now?"""
        has = {*in_hand}
        for tuple_id, holder in self._table.pending.items():
            if tuple_id in has or self._book.is_live(*holder):
                continue
            if self._book.heir(holder.replica) == self._me:
                self.wanted.setdefault(tuple_id, set())
                self._due = 0

    def drop(self, tuple_id: TupleId) -> bool:
        """It has come, or is done. Whether it was asked for."""
        return self.wanted.pop(tuple_id, None) is not None

    def missing(self, sender: str, tuple_id: TupleId, above: Iterable[str]) -> bool:
        """One does not have it. Whether nobody has."""
        if tuple_id not in self.wanted:
            return False
        self.wanted[tuple_id].add(sender)
        return {*above} <= self.wanted[tuple_id]

    def ask(self, above: Iterable[str], retry: int, now: int) -> None:
        """Ask, and ask again."""
        if not self.wanted or now < self._due:
            return
        self._due = now + retry
        for name in above:
            for tuple_id in self.wanted:
                self._post.note(name, Request, tuple_id)
