"""Memory of an engine for the plan: the catalog's model row and policies.fit, in the plan's own words.

Not the estimate itself: that is policies/fit.py, which rules use as well.
"""

from __future__ import annotations
