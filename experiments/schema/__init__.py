"""From a composed configuration to frozen, typed dataclasses; refuses what it does not know."""
