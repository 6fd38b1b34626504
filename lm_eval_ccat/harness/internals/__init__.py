"""The one place that touches lm-eval's internals.

Whatever the rest of the package needs from the harness beyond a task's and a model's own methods
comes through here, so that a harness with moved internals is a change of this folder. The contract
stands in `names`. Nothing is imported from the harness until it is called for.
"""

from .api import *  # noqa: F403
from .building import *  # noqa: F403
from .evaluation import *  # noqa: F403
from .models import *  # noqa: F403
from .names import *  # noqa: F403
from .task import *  # noqa: F403
from .tasks import *  # noqa: F403
