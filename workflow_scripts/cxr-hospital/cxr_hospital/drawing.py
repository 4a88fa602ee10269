"""A radiograph from its state: densities are added up, then exposed like a film.

The body attenuates, lungs take density away, bones and vessels add some; findings fill air, free
air, or add density; last come scatter, exposure, gamma, blur, grid, noise, marker, collimation.
"""

from dataclasses import dataclass

import numpy as np
from PIL import Image

from cxr_hospital.acquisition import Acquisition
from cxr_hospital.anatomy import Chest
from cxr_hospital.canvas import Array, Box, Canvas
from cxr_hospital.film import expose, grain
from cxr_hospital.findings import Effect, FrontalScene, LateralScene, Scene, effects
from cxr_hospital.findings.effect import EMPTIED, FILLED
from cxr_hospital.lateral import LateralChest
from cxr_hospital.markings import vessels
from cxr_hospital.patient import Patient, Study

Boxes = dict[int, list[Box]]


@dataclass(frozen=True)
class Drawing:
    """An image, float32 [H, W] in [0, 1], bright = dense, and boxes (x, y, width, height).

    ``boxes`` maps a finding's key to its boxes in pixels of this image, one a side; findings the
    view does not show, or that lie outside the image, are absent.
    """

    image: Array
    boxes: Boxes


def _scene(patient: Patient, study: Study, acquisition: Acquisition, size: int) -> Scene:
    canvas = Canvas(acquisition, size)
    enlarged, widened, emphysema = (
        max((f.severity for f in study.findings if f.name == name), default=0.0)
        for name in ("Cardiomegaly", "Enlarged Cardiomediastinum", "Emphysema")
    )
    if acquisition.frontal:
        chest = Chest(patient.anatomy, acquisition, enlarged, widened, emphysema)
        masks = canvas.mask([chest.lung(-1)]), canvas.mask([chest.lung(1)])
        return FrontalScene(chest, canvas, masks)
    side_view = LateralChest(patient.anatomy, acquisition, enlarged)
    return LateralScene(side_view, canvas, canvas.mask([side_view.lung()]))


def _effects(scene: Scene, patient: Patient, study: Study) -> list[tuple[int, Effect]]:
    """The effects of a study's findings, with the findings' keys."""
    return [(f.key, effect) for f in study.findings for effect in effects(scene, f, patient.seed)]


def _aerated(scene: Scene) -> tuple[Array, Array]:
    """Masks of aerated lung and of the soft organs over it, each [H, W]."""
    organs = scene.canvas.mask([scene.chest.heart()], 0.012)
    if isinstance(scene, FrontalScene):
        organs = np.maximum(organs, scene.canvas.mask([scene.chest.mediastinum()], 0.012))
        return scene.lungs * (1 - 0.88 * organs), organs
    # From the side lung lies on both sides of the heart, so air shows through it.
    return scene.lungs * (1 - 0.62 * organs), organs


def _boxes(keyed_effects: list[tuple[int, Effect]], air: Array) -> Boxes:
    boxes: Boxes = {}
    for key, effect in keyed_effects:
        if box := effect.box(air):
            boxes.setdefault(key, []).append(box)
    return boxes


def finding_boxes(patient: Patient, study: Study, acquisition: Acquisition, size: int) -> Boxes:
    """The boxes of :func:`draw` without drawing the image."""
    scene = _scene(patient, study, acquisition, size)
    boxes = _boxes(_effects(scene, patient, study), _aerated(scene)[0])
    mirrored = acquisition.spoilt == "mirrored"
    return _mirrored(boxes, scene.canvas.width) if mirrored else boxes


def _mirrored(boxes: Boxes, width: int) -> Boxes:
    """Boxes of the same image with left and right exchanged."""
    return {key: [(width - x - w, y, w, h) for x, y, w, h in group] for key, group in boxes.items()}


def _disc(canvas: Canvas, acquisition: Acquisition) -> Array:
    """A calibration disc over the chest, [H, W] in [0, 1]."""
    rng = np.random.default_rng([acquisition.seed, 3])
    centre, radius = rng.uniform(-0.5, 0.5, 2), rng.uniform(0.2, 0.35)
    angle = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    return canvas.mask([centre + radius * np.stack([np.cos(angle), np.sin(angle)], 1)])


def draw(patient: Patient, study: Study, acquisition: Acquisition, size: int) -> Drawing:
    """Draw one acquisition with ``size`` pixels on its shorter side."""
    scene = _scene(patient, study, acquisition, size)
    air, organs = _aerated(scene)
    keyed_effects = _effects(scene, patient, study)
    visible = [effect for _, effect in keyed_effects]
    density = _normal(scene, patient, air, organs, visible)
    for effect in visible:
        if effect.dense is not None:
            density += effect.dense
    if acquisition.spoilt == "foreign object":
        density += 0.6 * _disc(scene.canvas, acquisition)
    image = _expose(density, scene.canvas, acquisition)
    boxes = _boxes(keyed_effects, air)
    if acquisition.spoilt == "mirrored":
        return Drawing(np.ascontiguousarray(image[:, ::-1]), _mirrored(boxes, image.shape[1]))
    return Drawing(image, boxes)


def _normal(
    scene: Scene, patient: Patient, air: Array, organs: Array, visible: list[Effect]
) -> Array:
    """Density [H, W] of body, lungs (filled or emptied by findings) and bones."""
    chest, canvas, anatomy = scene.chest, scene.canvas, patient.anatomy
    filled, freed = canvas.empty(), canvas.empty()
    for effect in visible:
        if effect.fill is not None:
            filled += effect.fill * (1 - filled)
        if effect.air is not None:
            np.maximum(freed, effect.air, out=freed)
    if isinstance(chest, Chest):
        hila, markings = (chest.hilum(-1), chest.hilum(1)), anatomy.vessels
        bones = [*chest.spine(), *chest.ribs(), *chest.clavicles()]
        outlines = chest.scapulae() + (chest.breasts() if anatomy.breast else [])
    else:
        hila, markings = (chest.hilum(),) * 2, 0.7 * anatomy.vessels
        bones, outlines = [*chest.ribs(), *chest.vertebrae()], []
    tree = [
        stroke
        for side, hilum in zip((-1, 1), hila, strict=True)
        for stroke in vessels(patient.seed, side, hilum, markings)
    ]
    density = 0.50 * canvas.mask(chest.body(), 0.02)
    density += 0.10 * canvas.mask([chest.abdomen()], 0.010)
    density += 0.13 * organs
    rng = np.random.default_rng([patient.seed % 2**62, 5])
    texture = grain(canvas, rng, 26, 0.012, Image.Resampling.BICUBIC)
    lines = 0.13 * canvas.strokes(tree, 0.004) + texture
    density += air * (-FILLED * (1 - filled) - EMPTIED * freed)
    density += air * lines * (1 - freed) * (1 - 0.75 * filled)
    density += anatomy.rib_contrast * canvas.strokes(bones, 0.005)
    density -= 0.09 * canvas.strokes(chest.airway(), 0.012)
    if outlines:
        density += 0.05 * canvas.mask(outlines, 0.012)
    if anatomy.gas and isinstance(chest, Chest):
        bubble = np.array([[0.36, chest.base - chest.dome[1] + 0.16]])
        size = np.array([[0.16, 0.075]]) * anatomy.gas
        density -= canvas.bumps(bubble, size, [0.22], 2.6)
    return density


def _expose(density: Array, canvas: Canvas, acquisition: Acquisition) -> Array:
    """The film, with its marker at the edge of the detector."""
    image = (density - 0.45) * np.float32(acquisition.contrast)
    image += np.float32(0.47 + acquisition.exposure)
    width, height = canvas.width / canvas.half, canvas.height / canvas.half
    x = width - 0.16 if acquisition.marker == "L" else 0.10
    y = 0.14 if acquisition.marker_height == "upper" else 0.75
    place = (x - width / 2, y - height / 2)
    return expose(image, canvas, acquisition, acquisition.marker, place, 0.09)
