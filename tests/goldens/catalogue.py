"""All goldens, by name."""

from tests.goldens import credit, environments, studies, training
from tests.goldens.records import named

GOLDENS = named([*environments.GOLDENS, *credit.GOLDENS, *training.GOLDENS, *studies.GOLDENS])
