"""Federation: the same protocols, with every party on its own machine.

`Terms` say what a run is, `Site` is a party, `Coordinator` asks; a `Post` carries bytes between
them: `tacit.federation.simulate` within this process, `tacit.federation.flare` over NVFlare.
"""

from tacit.federation.consent import Policy, consent
from tacit.federation.coordinator import Coordinator, Outcome
from tacit.federation.errors import Interrupted, Refused
from tacit.federation.simulate import InProcess, simulate
from tacit.federation.site import Site
from tacit.federation.sites import Post, Sites
from tacit.federation.terms import Terms

__all__ = [
    "Coordinator",
    "InProcess",
    "Interrupted",
    "Outcome",
    "Policy",
    "Post",
    "Refused",
    "Site",
    "Sites",
    "Terms",
    "consent",
    "simulate",
]
