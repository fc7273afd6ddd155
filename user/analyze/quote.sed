# SPDX-License-Identifier: Apache-2.0
# A text as a string in C: sed -f quote.sed owners.rules
1i #include "analyze/analyze.h"\
const char rules__default[] =
s/[\\"]/\\&/g
s/.*/"&\\n"/
$a ;
