"""What tenants are refused, with the status that HTTP has for it."""

from __future__ import annotations

from holdfast.errors import HoldfastError

__all__ = [
    "ConflictError",
    "ForbiddenError",
    "NotFoundError",
    "QuotaError",
    "TenantError",
    "UnavailableError",
]


class TenantError(HoldfastError):
    """A request that cannot be met; nothing has changed."""

    status = 400
    retry_after: int | None = None
    """Seconds after which the same request may succeed."""


class ForbiddenError(TenantError):
    """Without a token that is known, or about what belongs to someone else."""

    status = 403


class NotFoundError(TenantError):
    """Not there, or not to be seen by this tenant: nobody can tell which."""

    status = 404


class ConflictError(TenantError):
    """Something else is there already."""

    status = 409


class QuotaError(TenantError):
    """More than the tenant may have."""

    status = 429

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class UnavailableError(TenantError):
    """Not now: what calculates is being started again."""

    status = 503
    retry_after = 5
