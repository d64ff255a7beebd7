"""EAP conversations: the journal's record of their start, and the choice of the one to end when too many are open."""

import pytest

from radius.module.conversations import LIFETIME_MICROSECONDS, Conversations
from tests.radius.devices import UNTIL_OUR_CERTIFICATE, VERSIONS, Device
from tests.radius.supplicant import TLS_1_2, TLS_1_3, eap_md5, eap_tls
from tests.radius.tenants import PRINTER

both_versions = pytest.mark.parametrize("version", VERSIONS)


@both_versions
@pytest.mark.parametrize("slug", ["alpha", "bravo"])
def test_device_that_stops_answering_leaves_certificate_sent(cell, slug, version):
    tenant = cell.tenants[slug]
    device = Device(tenant.clients["laptop"], version)
    # A device that stops before radiusd sends its certificate leaves no record.
    device.abandon(tenant, rounds=UNTIL_OUR_CERTIFICATE - 1)
    assert cell.certificates_sent() == []
    device.abandon(tenant, rounds=UNTIL_OUR_CERTIFICATE)
    assert cell.decisions() == []
    (sent,) = cell.certificates_sent()
    assert (sent.mac, sent.identity, sent.tenant_id) == (device.mac, "laptop", tenant.tenant_id)
    assert (sent.slot, sent.site_id, sent.nas_address) == (tenant.slot, tenant.site_id, "127.0.0.1")
    assert len(sent.conversation) == 16


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
@pytest.mark.parametrize("client", ["laptop", "revoked", "expired"])
def test_ended_conversation_has_its_first_name(cell, client, version):
    eap_tls(cell.alpha, cell.alpha.clients[client], version).run()
    (sent,) = cell.certificates_sent()
    assert cell.decision().conversation == sent.conversation


@both_versions
def test_returning_device_gets_a_new_conversation(cell, version):
    """A resumed conversation sends no certificate and has no name."""
    device = Device(cell.alpha.clients["laptop"], version)
    device.abandon(cell.alpha, rounds=UNTIL_OUR_CERTIFICATE)
    for _ in range(2):
        device.visit(cell.alpha)
    abandoned, finished = cell.certificates_sent()
    assert abandoned.conversation != finished.conversation
    assert [record.conversation for record in cell.decisions()] == [finished.conversation, ""]


def test_mac_authentication_by_eap_sends_no_certificate(cell):
    eap_md5(cell.alpha, PRINTER, PRINTER, mac=PRINTER).run()
    assert cell.certificates_sent() == []
    assert cell.decision().conversation == ""


class TestChoice:
    SWITCH, ROGUE, MAC = ("192.0.2.1", "switch"), ("192.0.2.2", "rogue"), "020000000001"

    @pytest.fixture
    def conversations(self):
        return Conversations(100)

    def begin(self, conversations, nas, count=1, *, mac="", noted=True):
        """Begin conversations, none of which ends another. Returns their numbers."""
        numbers = []
        for _ in range(count):
            number, ended = conversations.begin(nas, mac or f"{len(conversations):012x}", 0)
            assert ended is None
            if noted:
                conversations.note(number, b"state", 1, 0)
            numbers.append(number)
        return numbers

    def test_busiest_nas_loses_its_oldest_conversation(self, conversations):
        self.begin(conversations, self.SWITCH, 20)
        of_rogue = self.begin(conversations, self.ROGUE, 55)
        number, ended = conversations.begin(self.SWITCH, self.MAC, 0)
        assert ended.number == of_rogue[0]
        assert conversations.was_ended(ended.number)
        assert not conversations.was_ended(number)

    def test_earlier_conversation_of_the_device_is_ended_first(self, conversations):
        self.begin(conversations, self.ROGUE, 30)
        (first,) = self.begin(conversations, self.SWITCH, mac=self.MAC)
        # The same MAC address at another NAS ends nothing.
        self.begin(conversations, self.ROGUE, mac=self.MAC)
        assert conversations.begin(self.SWITCH, self.MAC, 0)[1].number == first

    def test_few_conversations_are_not_ended(self, conversations):
        self.begin(conversations, self.SWITCH, 20)
        self.begin(conversations, self.SWITCH, 4, mac=self.MAC)

    def test_conversation_that_rlm_eap_cannot_find_is_not_ended(self, conversations):
        self.begin(conversations, self.ROGUE, 75, noted=False)
        assert conversations.begin(self.SWITCH, "", 0)[1] is None

    def test_table_is_limited_for_any_events(self, conversations):
        for number in range(1_000):
            conversations.begin((f"192.0.2.{number % 200}", ""), f"{number:012x}", 0)
        assert len(conversations) == 100
        for number in range(2_000):
            conversations.close(number)
        assert len(conversations) == 0
        assert not conversations._by_nas
        assert not conversations._by_station

    def test_only_inactive_conversations_expire_as_in_rlm_eap(self, conversations):
        (kept,) = self.begin(conversations, self.ROGUE)
        self.begin(conversations, self.SWITCH, 70)
        conversations.note(kept, b"state", 2, LIFETIME_MICROSECONDS - 1)
        conversations.begin(self.SWITCH, "", LIFETIME_MICROSECONDS)
        assert len(conversations) == 2
