"""How long the state machines run, by the hypothesis profile in force."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Times as many examples as "dev" has. A soak is for hours, not for a CI run.
_SCALE = {"dev": 1.0, "ci": 4.0, "soak": 400.0, "slow": 0.4}


def profile_name() -> str:
    """The profile in force."""
    current = getattr(settings, "get_current_profile_name", None)
    return current() if current is not None else os.environ.get("HYPOTHESIS_PROFILE", "dev")


def machine_settings(examples: int, steps: int = 50) -> settings:
    """Settings for a state machine that runs ``examples`` times under "dev"."""
    scale = _SCALE.get(profile_name(), 1.0)
    return settings(
        deadline=None,
        max_examples=max(2, round(examples * scale)),
        stateful_step_count=steps,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
