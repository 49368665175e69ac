"""Attribution: from a deployment log to an answer. Was it my model or the world?"""

from performative.attribution.attribute import Check, NotIdentified, Report, attribute
from performative.attribution.estimate import Estimate
from performative.attribution.simulate import SimulatedLog, simulate_log
from performative.attribution.summary import Summary, summarize

__all__ = [
    "attribute",
    "Report",
    "Check",
    "Estimate",
    "NotIdentified",
    "Summary",
    "summarize",
    "SimulatedLog",
    "simulate_log",
]
