"""Site settings that affect decisions. This module compiles policies for their sites."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from nac.engine import Decision, Policy, PolicyErrors, ReplyDictionary, compile_policy
from nac.engine.admission import POLICY_MISSING
from nac.kit.ids import TenantId
from nac.models import Site
from nac.policies.document_checks import InvalidPolicy
from nac.tenancy import sites


@dataclass(frozen=True, slots=True)
class SiteContext:
    slug: str = ""
    name: str = ""
    # IANA name of the time zone.
    time_zone: str = "UTC"
    # The site's own fallback; None to use the policy's fallback.
    fallback: Mapping[str, Any] | None = None
    monitor: bool = False

    def compile(self, document: object, *, replies: ReplyDictionary | None = None) -> Policy:
        """Compile a document for this site. Raises InvalidPolicy."""
        try:
            return compile_policy(
                document,
                fallback=self.fallback,
                replies=replies,
                time_zone=self.time_zone,
                monitor=self.monitor,
                refuse_unreachable=False,
            )
        except PolicyErrors as errors:
            raise InvalidPolicy(errors.mistakes) from errors

    def decide_without_policy(self, vendor: Sequence[object] = ()) -> Decision:
        """Return the decision at a site without a published policy, for a NAS of this vendor.

        The verdict is deny; in monitor mode, Admit only logs the verdict.
        """
        if not self.monitor:
            return Decision(reason=POLICY_MISSING.reason)
        return self.compile({}).decisions.of(vendor, -1).refused(POLICY_MISSING.reason)


# Context without a site: UTC, and the policy's own fallback.
NO_SITE = SiteContext()


def build_site_context(site: Site) -> SiteContext:
    return SiteContext(site.slug, site.name, site.time_zone, site.fallback, site.monitor)


def site_contexts_by_slug(session: Session, *, tenant_id: TenantId) -> dict[str, SiteContext]:
    """Return the contexts of all sites of the tenant, by slug."""
    return {site.slug: build_site_context(site) for site in sites.list_sites(session, tenant_id=tenant_id)}
