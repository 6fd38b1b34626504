"""Access to lm-eval's internals.

The rest of the package reaches the harness only through here, or through the modules `session` and
`transport`, which run a task's requests; so if a release of the harness moves its internals, only
this folder changes. `names` looks them up. The harness is not imported until it is needed.
"""

from .lms import *  # noqa: F403
from .names import *  # noqa: F403
from .task import *  # noqa: F403
from .task_index import *  # noqa: F403
