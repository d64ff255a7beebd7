"""The dictionaries of the cell's radiusd, uploaded by its agent.

The agent uploads `to_json(read_dictionary(<dictionary folder>/dictionary, <raddb>/dictionary))` with
`nac.cells.service.upload_dictionary`. Pass `from_json` of it to `compile_policy(..., replies=...)`.
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
