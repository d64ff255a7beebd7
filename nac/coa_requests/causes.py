"""What a NAS says with Error-Cause (RFC 5176 3.5), and what a technician does about it."""

CAUSES = {
    201: "It has ended what was left of the session.",
    202: "It found an EAP packet in the request to be invalid.",
    401: "It does not know an attribute of the request. Check the vendor that the NAS is registered with.",
    402: "It misses an attribute that it needs. Check the vendor that the NAS is registered with.",
    403: "The request names another NAS. Check the NAS-Identifier and address that it is configured to send.",
    404: "It finds something in the request invalid. Its log says more.",
    405: "It does not offer what is asked. Turn on dynamic authorization for this service on the NAS.",
    406: "It does not know this kind of request. Update its software, or register it with the right vendor.",
    407: "It cannot use a value in the request. A VLAN or role that it does not have is the usual cause.",
    501: "Its configuration forbids it. Allow this server as a dynamic authorization client there.",
    502: "A proxy on the way does not know where to send the request.",
    503: "It knows no such session. It is over, or the NAS knows it by another name.",
    504: "It cannot end this session.",
    505: "A proxy on the way could not process the request.",
    506: "It has no resources left for the request. Ask again later.",
    507: "It asks for authorization anew before it answers for good.",
    508: "It cannot tell which of several sessions is meant.",
}
SESSION_NOT_FOUND = 503


def explain(code: int) -> str:
    """A sentence; `code` 0 is none."""
    if not code:
        return "It gave no Error-Cause."
    return f"Error-Cause {code}: {CAUSES.get(code, 'It is none of RFC 5176. See the documents of the vendor.')}"
