"""The dictionaries of the very radiusd that will send the replies: read from its files, uploaded by its agent.

The agent uploads `to_json(read_dictionary(<dictionary folder>/dictionary, <raddb>/dictionary))` with
`nac.cells.service.upload_dictionary`; `from_json` of it is what `compile_policy(..., replies=...)` takes.
"""

from nac.dictionary.codec import DictionaryUnreadable, from_json, to_json
from nac.dictionary.model import Attribute, Dictionary, Vendor
from nac.dictionary.parser import DictionaryDamaged, read_dictionary

__all__ = [
    "Attribute",
    "Dictionary",
    "DictionaryDamaged",
    "DictionaryUnreadable",
    "Vendor",
    "from_json",
    "read_dictionary",
    "to_json",
]
