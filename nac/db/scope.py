"""Scopes: whose rows a transaction may see. The settings are what policies of the migrations read."""

from dataclasses import dataclass
from uuid import UUID

from nac.ids import CellId, MspId, TenantId


@dataclass(frozen=True, slots=True)
class TenantScope:
    tenant_id: TenantId

    def settings(self) -> dict[str, str]:
        return {"admit.tenant_id": str(self.tenant_id)}


@dataclass(frozen=True, slots=True)
class MspScope:
    msp_id: MspId

    def settings(self) -> dict[str, str]:
        return {"admit.msp_id": str(self.msp_id)}


@dataclass(frozen=True, slots=True)
class PlatformScope:
    def settings(self) -> dict[str, str]:
        return {"admit.platform": "on"}


@dataclass(frozen=True, slots=True)
class CellScope:
    cell_id: CellId

    def settings(self) -> dict[str, str]:
        return {"admit.cell_id": str(self.cell_id)}


@dataclass(frozen=True, slots=True)
class AuthorityScope:
    """Of a certificate authority that somebody named: its row and those of what it issued, to read."""

    authority_id: UUID

    def settings(self) -> dict[str, str]:
        return {"admit.authority_id": str(self.authority_id)}


@dataclass(frozen=True, slots=True)
class EnrolmentScope:
    """Of an enrolment secret that somebody named by its public id: its row, to read."""

    public_id: str

    def settings(self) -> dict[str, str]:
        return {"admit.enrolment_id": self.public_id}


@dataclass(frozen=True, slots=True)
class PersonScope:
    """Of somebody who administers: the account, its memberships and where it has signed in."""

    person_id: UUID

    def settings(self) -> dict[str, str]:
        return {"admit.person_id": str(self.person_id)}


@dataclass(frozen=True, slots=True)
class CredentialScope:
    """Of an API token or sign-in that somebody named by its public id: its row."""

    public_id: str

    def settings(self) -> dict[str, str]:
        return {"admit.credential_id": self.public_id}


Scope = (
    TenantScope | MspScope | PlatformScope | CellScope | AuthorityScope | EnrolmentScope | PersonScope | CredentialScope
)
