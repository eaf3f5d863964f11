"""The MQTT broker of a server: where it is, how to log in there, and how far it can be trusted."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.errors import InvalidArgumentError
from holdfast.topology.addresses import is_loopback
from holdfast.wire.addresses import Address

__all__ = ["Broker"]

PASSWORD: Final = "HOLDFAST_MQTT_PASSWORD"
"""In the environment: what is on a command line, others can read."""


@dataclass(frozen=True)
class Broker:
    address: Address
    user: str | None = None
    password: str | None = None
    authority: Path | None = None
    """For TLS."""
    guarded: bool = False
    """Whether it lets each tenant use its own topics only. If not, messages need the tenant's
    token, and only what everybody may read goes out."""

    @classmethod
    def of(
        cls, told: str, user: str | None, authority: Path | None, guarded: bool = False
    ) -> Broker:
        address = Address.of(told)
        if authority is None and not is_loopback(address.host):
            raise InvalidArgumentError(
                f"--mqtt: {address.host} is another machine, and tokens would go there in the "
                "clear; add --mqtt-authority"
            )
        password = os.environ.get(PASSWORD)
        if user is not None and password is None:
            raise InvalidArgumentError(f"--mqtt-user: set {PASSWORD} in the environment")
        return cls(address, user, password, authority, guarded)
