"""Scopes: each scope selects the rows that a transaction can read. The row policies in `migrations/sql/policies`
use the settings of the scope."""

from dataclasses import dataclass
from uuid import UUID

from nac.kit.ids import CellId, MspId, TenantId


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
    """Scope of a certificate authority, which the transaction looks up by its name.

    The transaction can read the authority's row and the rows of the authority's certificates.
    """

    authority_id: UUID

    def settings(self) -> dict[str, str]:
        return {"admit.authority_id": str(self.authority_id)}


@dataclass(frozen=True, slots=True)
class EnrolmentScope:
    """Scope of an enrolment secret, which the transaction looks up by its public id."""

    public_id: str

    def settings(self) -> dict[str, str]:
        return {"admit.enrolment_id": self.public_id}


@dataclass(frozen=True, slots=True)
class PersonScope:
    """Scope of one person: the account, memberships and sign-ins of this person."""

    person_id: UUID

    def settings(self) -> dict[str, str]:
        return {"admit.person_id": str(self.person_id)}


@dataclass(frozen=True, slots=True)
class CredentialScope:
    """Scope of a credential, such as an API token or sign-in, which the transaction looks up by its public id."""

    public_id: str

    def settings(self) -> dict[str, str]:
        return {"admit.credential_id": self.public_id}


Scope = (
    TenantScope | MspScope | PlatformScope | CellScope | AuthorityScope | EnrolmentScope | PersonScope | CredentialScope
)
