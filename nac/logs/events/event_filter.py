"""Filters for live events."""

from dataclasses import dataclass

from nac.logs.events.document import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Filters, all of which must match; "" and empty mean any."""

    # Kinds of `admit.kind`.
    kinds: frozenset[str] = frozenset()
    # Only rejects.
    rejects: bool = False
    # permit | quarantine | deny
    verdict: str = ""
    # As in events: AA-BB-CC-DD-EE-FF.
    mac: str = ""
    # User name or common name of the certificate, case-insensitive.
    user: str = ""
    # Any of: NAS-Identifier, address, id of the registered NAS; in lower case.
    nas: frozenset[str] = frozenset()
    # Id of the site.
    site: str = ""

    def fits(self, event: Event) -> bool:
        admit = event.admit
        return (
            (not self.kinds or admit.__struct_config__.tag in self.kinds)
            and (not self.rejects or "denied" in event.event.type)
            and (not self.verdict or getattr(admit, "verdict", "") == self.verdict)
            and (not self.mac or (event.client is not None and event.client.mac == self.mac))
            and (not self.user or self.user.lower() in _user_names(event))
            and (not self.nas or not self.nas.isdisjoint(_nas_names(event)))
            and (not self.site or (admit.site is not None and admit.site.id == self.site))
        )


ALL_EVENTS = EventFilter()


def _user_names(event: Event) -> list[str]:
    names = [event.user.name] if event.user else []
    if event.tls and event.tls.client and event.tls.client.x509.subject:
        names += event.tls.client.x509.subject.common_name
    return [name.lower() for name in names]


def _nas_names(event: Event) -> list[str]:
    observer, nas = event.observer, event.admit.nas
    names = [observer.name, *observer.ip] if observer else []
    if nas is not None and nas.id is not None:
        names.append(nas.id)
    return [name.lower() for name in names]
