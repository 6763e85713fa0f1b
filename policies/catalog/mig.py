"""MIG profiles by GPU: memory, compute slices, instances. Not for: look-ups (see Gpu.mig_profile in gpus.py)."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MigProfile:
    """One MIG profile of a GPU.

    name: as in nvidia-smi without "MIG " (e.g. "1g.10gb"); resource name nvidia.com/mig-<name>.
    memory_mib: memory of one instance in MiB (`nvidia-smi mig -lgip` where `measured`, else 0.9 x the profile's part of
        the GPU's memory, which is below every measured profile's ratio).
    compute_slices: sevenths of the GPU's multiprocessors (fourths for A30 and RTX PRO 6000, halves for RTX PRO 4500).
    max_instances: how many of this profile one GPU can hold.
    """

    name: str
    memory_mib: int
    compute_slices: int
    max_instances: int
    measured: bool


def _mig(*rows: tuple[str, int, int, bool]) -> tuple[MigProfile, ...]:
    return tuple(MigProfile(name, mib, int(name[0]), count, measured) for name, mib, count, measured in rows)


# Profile names and counts: docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html (read 2026-11-30);
# for B300 and GB200 the MIG manager's device filters 0x318210DE and 0x294110DE (aws/sagemaker-hyperpod-cli PR 403). The "+me" and "+gfx" forms
# are left out: Ray and KubeRay see only the plain form. Memory: NVIDIA/go-nvml mock tables for A30 and A100, and
# published `nvidia-smi mig -lgip` listings for the rest.
A30 = _mig(("1g.6gb", 5836, 4, True), ("2g.12gb", 11672, 2, True), ("4g.24gb", 23344, 1, True))
A100_40 = _mig(
    ("1g.5gb", 4864, 7, True),
    ("1g.10gb", 9856, 4, True),
    ("2g.10gb", 9856, 3, True),
    ("3g.20gb", 19968, 2, True),
    ("4g.20gb", 19968, 1, True),
    ("7g.40gb", 40192, 1, True),
)
A100_80 = _mig(
    ("1g.10gb", 9856, 7, True),
    ("1g.20gb", 19968, 4, True),
    ("2g.20gb", 19968, 3, True),
    ("3g.40gb", 40192, 2, True),
    ("4g.40gb", 40192, 1, True),
    ("7g.80gb", 80384, 1, True),
)
H100 = _mig(
    ("1g.10gb", 9984, 7, True),
    ("1g.20gb", 20090, 4, True),
    ("2g.20gb", 20090, 3, True),
    ("3g.40gb", 40448, 2, True),
    ("4g.40gb", 40448, 1, True),
    ("7g.80gb", 81152, 1, True),
)
H200 = _mig(
    ("1g.18gb", 16384, 7, True),
    ("1g.35gb", 33280, 4, True),
    ("2g.35gb", 33280, 3, True),
    ("3g.71gb", 64696, 2, False),
    ("4g.71gb", 64696, 1, False),
    ("7g.141gb", 143360, 1, True),
)
B200 = _mig(
    ("1g.23gb", 20992, 7, True),
    ("1g.45gb", 41255, 4, False),
    ("2g.45gb", 41255, 3, False),
    ("3g.90gb", 82511, 2, False),
    ("4g.90gb", 82511, 1, False),
    ("7g.180gb", 165023, 1, False),
)
B300 = _mig(
    ("1g.34gb", 30942, 7, False),
    ("1g.67gb", 61884, 4, False),
    ("2g.67gb", 61884, 3, False),
    ("3g.135gb", 123768, 2, False),
    ("4g.135gb", 123768, 1, False),
    ("7g.269gb", 247536, 1, False),
)
GB200 = _mig(
    ("1g.23gb", 21250, 7, False),
    ("1g.47gb", 42630, 4, False),
    ("2g.47gb", 42630, 3, False),
    ("3g.93gb", 85261, 2, False),
    ("4g.93gb", 85261, 1, False),
    ("7g.186gb", 170523, 1, False),
)
RTX_PRO_6000 = _mig(("1g.24gb", 24186, 4, True), ("2g.48gb", 48517, 2, True), ("4g.96gb", 88098, 1, False))
RTX_PRO_4500 = _mig(("1g.16gb", 14680, 2, False), ("2g.32gb", 29360, 1, False))
UNTRACED = ("GB300",)
"""GPUs that MIG cuts into profiles whose names and memory no source here gives."""
