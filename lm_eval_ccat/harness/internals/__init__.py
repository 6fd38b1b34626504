"""The one place that touches lm-eval's internals.

Whatever the rest of the package needs from the harness comes through here, or through the modules
`session` and `transport`, which run a task's requests; so a harness with moved internals is a
change of this room. The contract stands in `names`. Nothing is imported from the harness until it
is called for.
"""

from .models import *  # noqa: F403
from .names import *  # noqa: F403
from .task import *  # noqa: F403
from .tasks import *  # noqa: F403
