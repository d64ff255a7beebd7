"""A device in its own network namespace. The switch that it is wired to is in the namespace of the installation."""

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
def switch_namespace(network: Namespace | None) -> Namespace:
    """The namespace of the switch, which reaches the installation through a private loopback interface."""
    if network is None:
        pytest.skip("only root may make network namespaces and set up interfaces in them; run the tests as root")
    for vlan in _VLANS:
        network.run("ip", "link", "add", vlan_interface(vlan), "type", "bridge")
    return network


@pytest.fixture(scope="package")
def device_namespace(switch_namespace: Namespace) -> Iterator[Namespace]:
    """The namespace of the devices."""
    device_namespace = Namespace()
    try:
        yield device_namespace
    finally:
        device_namespace.close()


@pytest.fixture(scope="package")
def office(switch_namespace: Namespace, instance: Instance, tmp_path_factory: pytest.TempPathFactory) -> Office:
    return Office(instance, tmp_path_factory.mktemp("devices"))


@pytest.fixture
def cable(switch_namespace: Namespace, device_namespace: Namespace) -> Iterator[Cable]:
    cable = Cable(switch_namespace, PORT, device_namespace, CARD)
    yield cable
    cable.remove()


@pytest.fixture
def switch(switch_namespace: Namespace, cable: Cable, office: Office, tmp_path: Path) -> Iterator[Switch]:
    with Switch(switch_namespace, tmp_path / "switch", office.target, _VLANS) as switch:
        yield switch


@pytest.fixture
def connect(device_namespace: Namespace, switch: Switch, tmp_path: Path) -> Iterator[Callable[..., Device]]:
    """Start a device with the network of an `EapolTestRun`, for any method. The device is stopped after the test."""
    with ExitStack() as running:

        def connect(eap: EapolTestRun) -> Device:
            mac = new_mac()
            return running.enter_context(Device(device_namespace, tmp_path / mac, mac, eap.network))

        yield connect


@pytest.fixture
def at_work(office: Office, switch: Switch, connect: Callable[..., Device]) -> Device:
    """A device that is on the network and has a known session."""
    device = connect(eap_tls(office, office.clients["laptop"]))
    until(lambda: switch.is_open(device.mac), "the port is open")
    until(lambda: office.open_sessions(device.mac) == 1, "the session is known")
    return device
