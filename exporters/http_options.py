"""What every HTTP request of a source has in common, as it is configured: time limits, size, credentials, TLS."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from ..storage.durations import Duration


class StrictOptions(BaseModel):
    """A part of a source's configuration: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class BasicAuth(StrictOptions):
    """User name and password, as in Prometheus' ``basic_auth``."""

    username: str = Field(description="User name.")
    password: SecretStr | None = Field(default=None, description="Password in the clear; prefer password_file.")
    password_file: Path | None = Field(default=None, description="File that holds the password; re-read on change.")

    @model_validator(mode="after")
    def _one_password(self) -> BasicAuth:
        if (self.password is None) == (self.password_file is None):
            raise ValueError("give either password or password_file")
        return self


class Authorization(StrictOptions):
    """An ``Authorization`` header, as in Prometheus' ``authorization``."""

    type: str = Field(default="Bearer", description="Scheme in front of the credentials.")
    credentials: SecretStr | None = Field(default=None, description="The token; prefer credentials_file.")
    credentials_file: Path | None = Field(default=None, description="File that holds the token; re-read on change.")

    @model_validator(mode="after")
    def _one_token(self) -> Authorization:
        if (self.credentials is None) == (self.credentials_file is None):
            raise ValueError("give either credentials or credentials_file")
        return self


class TlsConfig(StrictOptions):
    """How HTTPS servers are trusted and how we identify ourselves, as in Prometheus' ``tls_config``."""

    ca_file: Path | None = Field(default=None, description="Authority that signed the targets' certificates.")
    cert_file: Path | None = Field(default=None, description="Our own certificate, where targets ask for one.")
    key_file: Path | None = Field(default=None, description="The key of cert_file.")
    insecure_skip_verify: bool = Field(default=False, description="Trust any certificate: only for trying out.")


class HttpOptions(StrictOptions):
    """What every HTTP request of a source has in common."""

    timeout: Duration = Field(default=10.0, description="Longest time for one answer, from connecting to its end.")
    connect_timeout: Duration = Field(
        default=3.0, description="Longest time to connect; short, so that powered-down nodes do not hold up the rest.")
    max_body_bytes: int = Field(
        default=32 * 2**20, gt=0, description="Largest page taken, unpacked; more is refused as a fault of the target.")
    basic_auth: BasicAuth | None = Field(default=None, description="User name and password for every target.")
    authorization: Authorization | None = Field(default=None, description="Bearer token for every target.")
    tls_config: TlsConfig = Field(default=TlsConfig(), description="Trust and certificates for https targets.")
    headers: dict[str, str] = Field(
        default_factory=dict, description="Further request headers, e.g. X-Scope-OrgID for Mimir's tenants.")

    @model_validator(mode="after")
    def _one_credential(self) -> HttpOptions:
        if self.basic_auth and self.authorization:
            raise ValueError("give basic_auth or authorization, not both")
        return self
