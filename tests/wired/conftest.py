"""A switch and a device in network namespaces of their own, the whole product behind them in the switch's."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from cli.account import is_root
from tests.faults.instance import Instance
from tests.radius.supplicant import Eap, new_mac
from tests.wired.device import CARD, Device
from tests.wired.namespaces import Cable, Namespace
from tests.wired.office import LAB_VLAN, OFFICE_VLAN, Office
from tests.wired.switch import PORT, Switch, vlan_interface

_VLANS = (OFFICE_VLAN, LAB_VLAN)


@pytest.fixture(scope="package")
def room() -> Iterator[Namespace]:
    """Where the switch stands, and the product: it is reached on a loopback interface that nobody else has."""
    if not is_root():
        pytest.skip("only root may make network namespaces and set up interfaces in them; run the tests as root")
    room = Namespace()
    try:
        for vlan in _VLANS:
            room.run("ip", "link", "add", vlan_interface(vlan), "type", "bridge")
        yield room
    finally:
        room.close()


@pytest.fixture(scope="package")
def desk(room: Namespace) -> Iterator[Namespace]:
    """Where the devices are."""
    desk = Namespace()
    try:
        yield desk
    finally:
        desk.close()


@pytest.fixture(scope="package")
def office(room: Namespace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    with room.entered():
        instance = Instance()
        try:
            instance.up()
            yield Office(instance, tmp_path_factory.mktemp("devices"))
        finally:
            instance.close()


@pytest.fixture
def cable(room: Namespace, desk: Namespace) -> Iterator[Cable]:
    cable = Cable(room, PORT, desk, CARD)
    yield cable
    cable.remove()


@pytest.fixture
def switch(room: Namespace, cable: Cable, office: Office, tmp_path: Path) -> Iterator[Switch]:
    with Switch(room, tmp_path / "switch", office.target, _VLANS) as switch:
        yield switch


@pytest.fixture
def connect(desk: Namespace, switch: Switch, tmp_path: Path) -> Iterator[Callable[..., Device]]:
    """Starts a device with the network of an `Eap`, whatever its method; it is stopped after the test."""
    with ExitStack() as running:

        def connect(eap: Eap) -> Device:
            mac = new_mac()
            return running.enter_context(Device(desk, tmp_path / mac, mac, eap.network))

        yield connect
