"""Entry of the policy pack: `pulumi preview --policy-pack policies`. It serves until the engine ends it; nothing imports it."""

import sys
from pathlib import Path

# The engine runs this folder from wherever the judged program is.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from policies.pack import policies
from policies.server import serve

serve(policies())
