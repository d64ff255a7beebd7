"""The choice of the EAP conversation to end when too many are open."""

from radius.module.conversations import LIFETIME_MICROSECONDS, Conversations

SWITCH, ROGUE = ("192.0.2.1", "switch"), ("192.0.2.2", "rogue")


def begun(conversations, nas, count, *, at=0, noted=True):
    numbers = []
    for _ in range(count):
        number, ended = conversations.begin(nas, f"{len(conversations):012x}", at)
        assert ended is None
        if noted:
            conversations.note(number, b"state", 1, at)
        numbers.append(number)
    return numbers


def test_busiest_nas_loses_its_oldest_conversation():
    conversations = Conversations(100)
    begun(conversations, SWITCH, 20)
    of_rogue = begun(conversations, ROGUE, 55)
    number, ended = conversations.begin(SWITCH, "020000000001", 0)
    assert ended.number == of_rogue[0]
    assert conversations.was_ended(ended.number)
    assert not conversations.was_ended(number)


def test_earlier_conversation_of_the_same_device_is_ended_first():
    conversations = Conversations(100)
    begun(conversations, ROGUE, 30)
    first, _ = conversations.begin(SWITCH, "020000000001", 0)
    conversations.note(first, b"state", 1, 0)
    _, ended = conversations.begin(SWITCH, "020000000001", 0)
    assert ended.number == first


def test_few_conversations_are_not_ended():
    conversations = Conversations(100)
    begun(conversations, SWITCH, 20)
    for _ in range(4):
        number, ended = conversations.begin(SWITCH, "020000000001", 0)
        conversations.note(number, b"state", 1, 0)
        assert ended is None


def test_conversation_that_rlm_eap_cannot_find_is_not_ended():
    conversations = Conversations(100)
    begun(conversations, ROGUE, 75, noted=False)
    assert conversations.begin(SWITCH, "", 0)[1] is None


def test_table_is_limited_for_any_events():
    conversations = Conversations(100)
    for number in range(1_000):
        conversations.begin((f"192.0.2.{number % 200}", ""), f"{number:012x}", 0)
    assert len(conversations) == 100
    for number in range(2_000):
        conversations.close(number)
    assert len(conversations) == 0
    assert not conversations._by_nas
    assert not conversations._by_station


def test_conversations_expire_as_in_rlm_eap():
    conversations = Conversations(100)
    begun(conversations, ROGUE, 70)
    conversations.begin(SWITCH, "", LIFETIME_MICROSECONDS)
    assert len(conversations) == 1


def test_active_conversation_does_not_expire():
    conversations = Conversations(100)
    (kept,) = begun(conversations, ROGUE, 1)
    begun(conversations, SWITCH, 20)
    conversations.note(kept, b"state", 2, LIFETIME_MICROSECONDS - 1)
    conversations.begin(SWITCH, "", LIFETIME_MICROSECONDS)
    assert len(conversations) == 2


def test_same_mac_address_at_another_nas_ends_nothing():
    conversations = Conversations(100)
    begun(conversations, ROGUE, 30)
    first, _ = conversations.begin(SWITCH, "020000000001", 0)
    conversations.note(first, b"state", 1, 0)
    assert conversations.begin(ROGUE, "020000000001", 0)[1] is None
