"""Registration of prior images to current ones, two cores: against ten whole runs a pair.

Ours gives each core a pair of its own; the peers give both cores to one pair after another, as
SimpleITK does by itself.
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

import numpy as np

from cxr_hospital.acquisition import sample_acquisition
from cxr_hospital.drawing import draw
from cxr_hospital.patient import make_patient
from cxr_hospital.settings import HospitalSettings
from cxrflow.images.registration import Alignment, register
from cxrflow.images.settings import RegistrationSettings
from speed.race import Race
from speed.registration_recipe import (
    Optimiser,
    by_the_recipe,
    gradient_descent,
    regular_steps,
    true_alignment,
)

SIZE, CORES, PAIRS = 512, 2, 2
SETTINGS = RegistrationSettings()
#: Ours may fall behind by so much of the mutual information, and of a side in place.
LESS, FURTHER = 0.005, 0.002


def drawn_pair(number: int) -> tuple[np.ndarray, np.ndarray, Alignment]:
    """Current and prior image of a patient of the synthetic hospital, and how they truly lie."""
    hospital = HospitalSettings(spoilt_share=0.0)
    patient, rng = make_patient(hospital, number), np.random.default_rng(number)
    taken = []
    while len(taken) < 2:
        acquisition = sample_acquisition(rng, hospital, "image", "AP")
        taken += [acquisition] if acquisition.aspect == 1.0 else []
    prior, current = (
        np.rint(draw(patient, patient.studies[0], one, SIZE).image * 255).astype(np.uint8)
        for one in taken
    )
    return current, prior, true_alignment(*taken, SIZE / 2)


def races() -> list[Race]:
    pairs = [drawn_pair(number) for number in range(1, PAIRS + 1)]
    currents, priors, truths = zip(*pairs, strict=True)
    pool = ProcessPoolExecutor(CORES, multiprocessing.get_context("spawn"))

    def ours() -> list[Alignment]:
        return list(pool.map(register, currents, priors, [SETTINGS] * PAIRS))

    def recipe(optimiser: Optimiser) -> list[Alignment]:
        return [
            by_the_recipe(current, prior, SETTINGS, optimiser, CORES) for current, prior, _ in pairs
        ]

    def check(found: list[Alignment], wanted: list[Alignment]) -> None:
        for one, peer, true in zip(found, wanted, truths, strict=True):
            least = (1 - LESS) * peer.mutual_information
            assert one.mutual_information > least, (one, peer)
            off = one.distance(true, SIZE), peer.distance(true, SIZE)
            assert off[0] < off[1] + FURTHER * SIZE, off

    return [
        Race(
            name="registration",
            what=f"{PAIRS} pairs of {SIZE} x {SIZE} pixels, 4 degrees of freedom, mutual"
            f" information of {SETTINGS.bins} bins, {SETTINGS.starts} starts in both directions,"
            f" {CORES} cores",
            ours=ours,
            peers={
                "ten whole runs, gradient descent": lambda: recipe(gradient_descent),
                "ten whole runs, regular steps": lambda: recipe(regular_steps),
            },
            check=check,
            gates={"ten whole runs, gradient descent": 4.0},
            amount=PAIRS,
            unit="pair",
            notes=[
                f"compared: mutual information, ours at most {LESS:.1%} less; distance from the"
                f" true place at the worst corner, ours at most {FURTHER:.1%} of a side more",
                "our two processes are started before the first turn, as a cohort starts them once",
            ],
            most_rounds=3,
        )
    ]
