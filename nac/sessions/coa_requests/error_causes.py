"""Error-Cause codes that NASes send (RFC 5176 3.5), with advice for a technician."""

ERROR_CAUSES = {
    201: "The NAS removed the rest of the session.",
    202: "The NAS received an invalid EAP packet in the request.",
    401: "The NAS does not know an attribute of the request. Check the registered vendor of the NAS.",
    402: "The NAS misses a required attribute. Check the registered vendor of the NAS.",
    403: "The request names another NAS. Check the NAS-Identifier and the address that the NAS sends.",
    404: "The NAS reports an invalid request. See the log of the NAS.",
    405: "The NAS does not offer this service. Turn on dynamic authorization for this service on the NAS.",
    406: "The NAS does not support this request. Update the software of the NAS, or correct its vendor in Admit.",
    407: "The NAS does not support a value in the request. Usually the NAS lacks the VLAN or role.",
    501: "The NAS forbids the request. Add the address of the cell to the dynamic authorization clients of the NAS.",
    502: "A proxy does not know where to send the request.",
    503: "The NAS does not know this session. The session has ended, or the NAS uses another id for the session.",
    504: "The NAS cannot end this session.",
    505: "A proxy could not process the request.",
    506: "The NAS has no resources for the request. Try again later.",
    507: "The NAS requires a new authorization first.",
    508: "The NAS found several matching sessions.",
}
SESSION_NOT_FOUND = 503


def explain_error_cause(code: int) -> str:
    """Return an explanation of an Error-Cause. `code` is 0 if the NAS sent no Error-Cause."""
    if not code:
        return "The NAS sent no Error-Cause."
    return (
        f"Error-Cause {code}: {ERROR_CAUSES.get(code, 'Not defined in RFC 5176. See the documentation of the vendor.')}"
    )
