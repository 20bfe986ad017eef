"""What an audit found: one finding for each attack, and whether every claim stands."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from hazeglass.audit.certify import Certificate

__all__ = ["AuditResult", "Finding"]


@dataclass(frozen=True)
class Finding:
    """One attack: what the mechanism claims, and what the attack certifies.

    `ours` tells hazeglass's mechanisms from the paper's, which are attacked to show that their claim is broken;
    `structural` an attack on what is not a noised number, which certifies 0 or, where neighbours differ with certainty,
    infinity.
    """

    form: str
    unit: str
    noise: str
    claimed_mu: float
    certificate: Certificate
    ours: bool
    structural: bool = False

    @property
    def certified_mu(self) -> float:
        """mu is at least this."""
        return self.certificate.mu

    @property
    def ratio(self) -> float:
        """Certified over claimed: close to 1 for a tight mechanism and attack, above 1 for a broken claim."""
        return self.certified_mu / self.claimed_mu

    @property
    def holds(self) -> bool:
        """Whether the claim survived."""
        return self.certified_mu <= self.claimed_mu

    @property
    def name(self) -> str:
        """In one line: 'moments, record, rounded, mu = 1'."""
        return ", ".join(part for part in (self.form, self.unit, self.noise, f"mu = {self.claimed_mu:.4g}") if part)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "form": self.form,
            "unit": self.unit,
            "noise": self.noise,
            "claimed_mu": self.claimed_mu,
            "certified_mu": _plain(self.certified_mu),
            "ratio": _plain(self.ratio),
            "holds": self.holds,
            "ours": self.ours,
            "structural": self.structural,
            "certificate": asdict(self.certificate) | {"mu": _plain(self.certified_mu)},
        }


def _plain(value: float) -> float | str:
    """JSON has no word for infinity."""
    return value if math.isfinite(value) else "infinity"


@dataclass(frozen=True)
class AuditResult:
    """All findings. With probability at least `confidence` none of the certified bounds exceeds the true mu."""

    findings: tuple[Finding, ...]
    confidence: float
    seconds: float

    @property
    def broken(self) -> tuple[Finding, ...]:
        """Mechanisms of ours whose claim an attack refuted."""
        return tuple(finding for finding in self.findings if finding.ours and not finding.holds)

    @property
    def structural(self) -> tuple[Finding, ...]:
        """The attacks on structure."""
        return tuple(finding for finding in self.findings if finding.structural)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {
            "confidence": self.confidence,
            "tests": len(self.findings),
            "seconds": round(self.seconds, 3),
            "claims_hold": not self.broken,
            "findings": [finding.to_dict() for finding in self.findings],
        }
