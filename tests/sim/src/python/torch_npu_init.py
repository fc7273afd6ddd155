# SPDX-License-Identifier: Apache-2.0
"""Package around the hermetic torch_npu._C."""
from . import _C  # noqa: F401
