# SPDX-License-Identifier: Apache-2.0
"""See msleaks.describe."""
from msleaks.describe import describer  # noqa: F401
