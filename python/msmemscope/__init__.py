# SPDX-License-Identifier: Apache-2.0
"""msleaks by the name that the vendor's tool has since 2025-11; see memtap-python(7)."""
from msleaks import *  # noqa: F401,F403
from msleaks import __all__  # noqa: F401
from . import describe  # noqa: F401
