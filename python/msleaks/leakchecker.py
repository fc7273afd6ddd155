# SPDX-License-Identifier: Apache-2.0
"""leakchecker.run(): check_leaks() by its first name."""
from ._offline import check_leaks


def run(input_path: str, mstx_info: str, start_index: int = 0) -> str:
    """See msleaks.check_leaks."""
    return check_leaks(input_path, mstx_info, start_index)
