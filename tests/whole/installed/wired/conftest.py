"""A device in a network namespace of its own; the switch that it is wired to is in that of the whole product."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.polling import until
from tests.radius.supplicant import EapolTestRun, eap_tls, new_mac
from tests.whole.installed.wired.device import CARD, Device
from tests.whole.installed.wired.office import LAB_VLAN, OFFICE_VLAN, Office
from tests.whole.installed.wired.switch import PORT, Switch, vlan_interface
from tests.whole.instance import Instance
from tests.whole.namespaces import Cable, Namespace

_VLANS = (OFFICE_VLAN, LAB_VLAN)


@pytest.fixture(scope="package")
def room(network: Namespace | None) -> Namespace:
    """Where the switch stands: it reaches the product on a loopback interface that nobody else has."""
    if network is None:
        pytest.skip("only root may make network namespaces and set up interfaces in them; run the tests as root")
    for vlan in _VLANS:
        network.run("ip", "link", "add", vlan_interface(vlan), "type", "bridge")
    return network


@pytest.fixture(scope="package")
def desk(room: Namespace) -> Iterator[Namespace]:
    """Where the devices are."""
    desk = Namespace()
    try:
        yield desk
    finally:
        desk.close()


@pytest.fixture(scope="package")
def office(room: Namespace, instance: Instance, tmp_path_factory: pytest.TempPathFactory) -> Office:
    return Office(instance, tmp_path_factory.mktemp("devices"))


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
    """Starts a device with the network of an `EapolTestRun`, whatever its method; it is stopped after the test."""
    with ExitStack() as running:

        def connect(eap: EapolTestRun) -> Device:
            mac = new_mac()
            return running.enter_context(Device(desk, tmp_path / mac, mac, eap.network))

        yield connect


@pytest.fixture
def at_work(office: Office, switch: Switch, connect: Callable[..., Device]) -> Device:
    """A device that is on the network, and whose session is known."""
    device = connect(eap_tls(office, office.clients["laptop"]))
    until(lambda: switch.is_open(device.mac), "the port is open")
    until(lambda: office.open_sessions(device.mac) == 1, "the session is known")
    return device
