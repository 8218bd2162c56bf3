"""The type checker of the second test run: beartype with PEP 484's numeric tower, so that an int is a float."""

from beartype import BeartypeConf, beartype

__all__ = ["check"]

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
