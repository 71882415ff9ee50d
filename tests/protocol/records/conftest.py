"""Property tests have no deadline: the machine may be busy."""

from __future__ import annotations

import hypothesis

hypothesis.settings.register_profile("any-machine", deadline=None)
hypothesis.settings.load_profile("any-machine")
