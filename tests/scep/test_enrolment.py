from tests.scep.client import Device
from tests.scep.conftest import Server


def test_device_with_a_challenge_gets_a_certificate(server: Server, challenge: str):
    device = Device("laptop")
    certificate = server.obtain(device, challenge)
    assert certificate.public_key() == device.key.public_key()
