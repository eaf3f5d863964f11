"""What tenants are refused, with the status that HTTP has for it."""

from __future__ import annotations

from holdfast.errors import HoldfastError

__all__ = ["ConflictError", "ForbiddenError", "NotFoundError", "QuotaError", "TenantError"]


class TenantError(HoldfastError):
    """A request that cannot be met; nothing has changed."""

    status = 400


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
