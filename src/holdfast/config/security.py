"""Security settings as files name them; servers read the files."""

from __future__ import annotations

from holdfast.config.fields import FLAG, TEXT, VARIABLE
from holdfast.config.settings import Setting, optional, setting, table


@table
class Security:
    """Needed as soon as an address is not of this machine alone: then a token, a certificate, its
    key and the authority must all be given. Paths are relative to the file."""

    token_file: Setting[str | None, str | None] = optional(
        TEXT, "A file with the token that all parties and clients show.", example='"token"'
    )
    token_env: Setting[str | None, str | None] = optional(
        VARIABLE,
        "In place of `token_file`: an environment variable with the token.",
        example='"HOLDFAST_TOKEN"',
    )
    certificate: Setting[str | None, str | None] = optional(
        TEXT, "A file with the certificate that a server shows, as PEM.", example='"node.pem"'
    )
    key: Setting[str | None, str | None] = optional(
        TEXT, "A file with the private key of the certificate, as PEM.", example='"node.key"'
    )
    authority: Setting[str | None, str | None] = optional(
        TEXT, "A file with the certificate of the CA that signs them, as PEM.", example='"ca.pem"'
    )
    mutual: Setting[bool, bool] = setting(
        FLAG,
        "Whether clients must show a certificate too, and parties one of their own host.",
        example="true",
        default=False,
    )
