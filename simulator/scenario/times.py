"""When things happen in a scenario, and how long they take, in microseconds."""

from __future__ import annotations

from typing import Final

SIZE: Final = 100_000
HEARTBEAT: Final = 100_000
MISSED: Final = 2
HEADROOM: Final = 100_000
PATIENCE: Final = 50_000
FIRST_FAULT: Final = 500_000
HEALED: Final = 4_500_000
SOURCES_STOP: Final = 5_300_000
END: Final = 6_800_000
WIPES_END: Final = 16_000_000
"""Where all replicas of a stage lose their state it takes longer, stage by stage."""
LASTING_HEALED: Final = 560_000_000
LASTING_STOP: Final = 590_000_000
LASTING_END: Final = 600_000_000
"""Where a run lasts for ten minutes, with failures of up to a minute."""
HOUR: Final = 3_600_000_000
WILD: Final = 1_000_000
"""So far clocks are apart that nobody has set."""
TWIN_PERIOD: Final = 25_000
TWIN_PATIENCE: Final = 150_000
"""How often a source and its hot standby speak, and when the standby takes over."""
CORRECTED: Final = 2_000_000
"""With bounded memory: for how long after a failure previews are still corrected."""
MOST_KEPT: Final = 1_500_000
"""With bounded memory and a stage that does not converge: what is kept."""
LOOK: Final = 50_000
"""So often a source looks whether silence has lasted; the loop that is shipped, every second."""
SILENCE: Final = 1_500_000
"""So long a source whose readings say their own times has none."""
